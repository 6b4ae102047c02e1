"""The abilities that a run needs or can use, stage by stage: how each is tried, and what to do.

Every function gets a :class:`minirun.probe.Place`, runs in a process of its own, does the thing as
the stages do it (through the same kernel functions), and returns what it found in a few words. It
raises where the thing does not work: OSError by the kernel, :class:`Lacking` by its own judgement.
"""

import errno
import os
import platform
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable

from minirun import cgroups
from minirun.cgroups.rules import DeviceRule
from minirun.image import catalogue
from minirun.kernel import files, mounts, namespaces, process
from minirun.probe import Ability, Place, in_child
from minirun.process import caps, trampoline

LEAST_FREE = 256 << 20
"""Bytes that a first run may need: an image, a container's changes, its log."""


class Lacking(Exception):
    """This machine does not have it; the text says what was found instead."""


def root(place: Place) -> str:
    """Root in the machine's own user namespace; files of any owner can be made."""
    if os.geteuid() != 0:
        raise Lacking(f"this is user {os.geteuid()}")
    os.chown(place.scratch, 0, 0)
    return "user 0"


def kernel(place: Place) -> str:
    """The kernel's version; 5.12 has the last of the calls that stages 1 to 7 use."""
    release = platform.release()
    if tuple(map(int, release.split("-")[0].split(".")[:2])) < (5, 12):
        raise Lacking(f"Linux {release}")
    return f"Linux {release}"


def interpreter(place: Place) -> str:
    """The Python that runs this, and whether the start is the fast one of `make setup`."""
    isolated = sys.flags.isolated and sys.flags.no_site
    start = "started by the launcher (-I -S)" if isolated else "started without the launcher"
    return f"Python {platform.python_version()}, {os.path.realpath(sys.executable)}, {start}"


def disk(place: Place) -> str:
    """Room for containers and images."""
    free = min(shutil.disk_usage(p).free for p in (place.scratch, _above(place.store)))
    if free < LEAST_FREE:
        raise Lacking(f"{free >> 20} MiB free")
    return f"{free >> 30} GiB free" if free >> 30 else f"{free >> 20} MiB free"


def images(place: Place) -> str:
    """At least one image in the store."""
    found = [f"{image['name']}:{image['tag']}" for image in catalogue.list_images(place.store)]
    if not found:
        raise Lacking(f"none in {place.store}")
    return ", ".join(found)


def builders(place: Place) -> str:
    """The tools that make images without a registry."""
    found = [name for name in ("mmdebstrap", "debootstrap", "busybox") if shutil.which(name)]
    if not {"mmdebstrap", "debootstrap"} & set(found) or "busybox" not in found:
        raise Lacking(f"found only {', '.join(found) or 'none of them'}")
    return ", ".join(found)


def namespace(kind: str) -> Callable[[Place], str]:
    """Return the attempt to enter a new namespace of one kind."""

    def attempt(place: Place) -> str:
        name = namespaces.PROC_NAMES.get(kind, kind)
        name = f"{name}_for_children" if kind in ("pid", "time") else name
        before = os.readlink(f"/proc/self/ns/{name}")
        namespaces.unshare(namespaces.FLAGS[kind])
        if kind in ("pid", "time"):  # the first child makes it real
            inside, link = in_child(lambda: os.readlink(f"/proc/self/ns/{kind}"))
        else:
            inside, link = True, os.readlink(f"/proc/self/ns/{name}")
        if not inside or link == before:
            raise Lacking(f"the namespace did not change: {link}")
        return link

    return attempt


def clone3(place: Place) -> str:
    """A child in a new mount and pid namespace, held by a pidfd."""
    pid, pidfd = namespaces.clone3(namespaces.FLAGS["mount"] | namespaces.FLAGS["pid"])
    if pid == 0:
        os._exit(7 if os.getpid() == 1 else 8)
    status = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    if not status or status.si_status != 7:
        raise Lacking(f"the child saw no pid 1: {status}")
    return "a child that is pid 1, and a pidfd"


def overlay(place: Place) -> str:
    """OverlayFS with its upper directory where containers are kept."""
    _own_mounts()
    base = os.path.join(place.scratch, "overlay")
    for name in ("lower", "upper", "work", "merged"):
        os.makedirs(os.path.join(base, name))
    options = f"lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work"
    mounts.mount("overlay", f"{base}/merged", "overlay", 0, options)
    with open(f"{base}/merged/file", "w", encoding="ascii") as file:
        file.write("through")
    if os.listdir(f"{base}/upper") != ["file"]:
        raise Lacking("what was written did not reach the upper directory")
    return f"upper directory on {_filesystem(base)}"


def mount_api(place: Place) -> str:
    """Mounts by descriptor: fsopen, fsmount, open_tree, mount_setattr, move_mount."""
    _own_mounts()
    target = os.path.join(place.scratch, "mount")
    os.mkdir(target)
    made = mounts.new_filesystem("tmpfs", {"size": "64k"})
    fd = os.open(target, os.O_PATH | os.O_DIRECTORY)
    mounts.move_mount(made, fd, shown=target)
    copy = mounts.open_tree(mounts.AT_FDCWD, target, mounts.OPEN_TREE_CLONE)
    mounts.mount_setattr(copy, mounts.MOUNT_ATTR_RDONLY)
    if not os.fstatvfs(copy).f_flag & os.ST_RDONLY:
        raise Lacking("mount_setattr left the copy writable")
    return "fsopen, fsmount, open_tree, mount_setattr, move_mount"


def openat2(place: Place) -> str:
    """Paths looked up inside a directory: RESOLVE_IN_ROOT."""
    fd = os.open(place.scratch, os.O_PATH | os.O_DIRECTORY)
    os.symlink("/", os.path.join(place.scratch, "to-root"))
    inside = files.openat2(fd, "to-root", os.O_PATH, files.RESOLVE_IN_ROOT)
    if not os.path.sameopenfile(fd, inside):
        raise Lacking("an absolute link led outside")
    return "an absolute link stays inside"


def cgroup(version: str) -> Callable[[Place], str]:
    """Return the attempt to make a cgroup of one version and to let a process in."""

    def attempt(place: Place) -> str:
        group = cgroups.open_cgroup(f"/minirun-doctor-{os.getpid()}", version)
        group.create()
        try:
            done, text = in_child(lambda: group.join() or "")
            if not done:
                raise Lacking(text)
            return ", ".join(group.directories())
        finally:
            group.remove()

    return attempt


def device_rules(version: str) -> Callable[[Place], str]:
    """Return the attempt to have a cgroup of one version allow /dev/zero and deny /dev/null."""

    def tries(group: cgroups.Cgroup) -> str:
        group.join()
        os.close(os.open("/dev/zero", os.O_RDONLY))
        try:
            os.open("/dev/null", os.O_RDONLY)
        except PermissionError:
            return "denied devices cannot be opened"
        raise Lacking("a denied device was opened")

    def attempt(place: Place) -> str:
        group = cgroups.open_cgroup(f"/minirun-doctor-{os.getpid()}", version)
        group.create()
        try:
            group.set_device_rules([DeviceRule(True, "c", 1, 5, "rwm")])
            works, text = in_child(lambda: tries(group))
            if not works:
                raise Lacking(text)
            return text
        finally:
            group.remove()

    return attempt


def fifo(place: Place) -> str:
    """A named FIFO where containers are kept: init's question and the runtime's answer."""
    path = os.path.join(place.scratch, "fifo")
    files.mknodat(mounts.AT_FDCWD, path, stat.S_IFIFO | 0o600)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.write(os.open(path, os.O_WRONLY), b"?")
    return f"{len(os.read(reader, 8))} byte went through"


def pidfd(place: Place) -> str:
    """A pidfd that wakes its holder when the process ends."""
    import select

    pid = os.fork()
    if pid == 0:
        os._exit(0)
    poll = select.poll()
    poll.register(os.pidfd_open(pid), select.POLLIN)
    if not poll.poll(5000):
        raise Lacking("the end of a child went unnoticed")
    return "the end of a process is noticed"


def hooks(place: Place) -> str:
    """A program in a process group of its own, without environment: how a hook is run."""
    done = subprocess.run(["/bin/sh", "-c", "exit 0"], env={}, start_new_session=True, timeout=10)
    if done.returncode:
        raise Lacking(f"/bin/sh exited {done.returncode}")
    return "/bin/sh ran and ended"


def nvidia_tools(place: Place) -> str:
    """NVIDIA's own programs, which can take the place of minirun's stages 4 and 5."""
    names = ("nvidia-container-runtime-hook", "nvidia-container-cli", "nvidia-ctk")
    found = [path for name in names if (path := shutil.which(name))]
    if not found:
        raise Lacking("not installed")
    return ", ".join(found)


def mknod(place: Place) -> str:
    """A device node made where containers are kept, and opened by its number."""
    path = os.path.join(place.scratch, "null")
    files.mknodat(mounts.AT_FDCWD, path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.close(os.open(path, os.O_WRONLY))
    return f"on {_filesystem(place.scratch)}"


def gpu(place: Place) -> str:
    """A real driver with at least one GPU; without one GPUs are SIMULATED."""
    from minirun.gpu import inventory

    if not os.path.exists(f"{inventory.PROC}/version"):
        raise Lacking(f"no driver: {inventory.PROC}/version is missing, so GPUs are SIMULATED")
    found = inventory.inventory("nvidia", place.store)
    return f"driver {found.driver}, {len(found.gpus)} GPUs"


def modules(place: Place) -> str:
    """Whether kernel modules could be loaded: the driver's, if asked."""
    directory = f"/lib/modules/{platform.release()}"
    if not os.path.isdir(directory) or not shutil.which("modprobe"):
        raise Lacking(f"no {directory}" if shutil.which("modprobe") else "no modprobe")
    return directory


def ldconfig(place: Place) -> str:
    """The host's ldconfig, which makes the container's cache of libraries."""
    for path in ("/sbin/ldconfig.real", "/sbin/ldconfig"):
        if os.path.exists(path):
            done = subprocess.run([path, "--version"], capture_output=True, text=True, env={})
            return f"{path}, {done.stdout.splitlines()[0]}"
    raise Lacking("neither /sbin/ldconfig.real nor /sbin/ldconfig")


def pivot_root(place: Place) -> str:
    """pivot_root(2) onto a new file system, and the old root let go."""
    _own_mounts()
    new = os.path.join(place.scratch, "root")
    os.mkdir(new)
    mounts.mount("tmpfs", new, "tmpfs")
    os.chdir(new)
    mounts.pivot_root(".", ".")
    mounts.umount2(".", mounts.MNT_DETACH)
    os.chdir("/")
    if os.listdir("/"):
        raise Lacking("the old root is still there")
    return "the old root is gone"


def capabilities(place: Place) -> str:
    """Every capability of this kernel can be granted."""
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
        last = int(file.read())
    held = caps.held()
    lacking = [n for n, number in caps.NUMBERS.items() if number <= last and not held >> number & 1]
    if lacking:
        raise Lacking(f"missing: {', '.join(lacking)}")
    return f"all {last + 1}"


def no_new_privileges(place: Place) -> str:
    """prctl(2), PR_SET_NO_NEW_PRIVS."""
    process.prctl(process.PR_SET_NO_NEW_PRIVS, 1)
    return "set"


def seccomp(place: Place) -> str:
    """A filter, compiled by libseccomp, that makes one call fail."""
    from minirun.kernel import seccomp as filters

    allow, error = 0x7FFF0000, 0x00050000 | errno.EXDEV
    compiler = filters.Compiler(allow)
    compiler.add_rule(error, "getpriority")
    filters.install(compiler.compile())
    try:
        os.getpriority(os.PRIO_PROCESS, 0)
    except OSError as refused:
        if refused.errno == errno.EXDEV:
            return "a filtered call fails as told"
    raise Lacking("a filtered call went through")


def raised_limits(place: Place) -> str:
    """A hard limit above the present one: CAP_SYS_RESOURCE."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
        hard = 1 << 20
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard + 4096))
    return "can be raised"


def terminal(place: Place) -> str:
    """A pseudo-terminal out of a devpts of its own, as -t makes it."""
    _own_mounts()
    target = os.path.join(place.scratch, "pts")
    os.mkdir(target)
    options = "newinstance,ptmxmode=0666,mode=0620,gid=5"
    mounts.mount("devpts", target, "devpts", mounts.MS_NOSUID | mounts.MS_NOEXEC, options)
    os.close(os.open(f"{target}/ptmx", os.O_RDWR | os.O_NOCTTY))
    return "devpts, newinstance"


def memfd(place: Place) -> str:
    """A sealed memory file that can be executed: how init leaves the interpreter behind."""
    ours, theirs = os.pipe()
    fd = trampoline.open_sealed(theirs)
    pid = os.fork()
    if pid == 0:
        os.set_inheritable(theirs, True)
        os.execve(fd, ["/bin/true", "true"], {})
    os.close(theirs)
    said = os.read(ours, 4)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if said or status:
        raise Lacking(f"it ended with status {status}, errno {int.from_bytes(said, 'little')}")
    return "executed"


def _own_mounts() -> None:
    """Give this process a mount namespace of its own, from which nothing goes back."""
    namespaces.unshare(namespaces.FLAGS["mount"])
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)


def _filesystem(path: str) -> str:
    """The type of the file system that `path` lies on: the longest mount point that fits."""
    best = ("", "?")
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            left, _, right = line.partition(" - ")
            point = left.split()[4]
            if path == point or path.startswith(point.rstrip("/") + "/"):
                best = max(best, (point, right.split()[0]))
    return best[1]


def _above(path: str) -> str:
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


_KINDS = ("mount", "pid", "uts", "ipc", "network", "cgroup")
_AS_ROOT = "run as root, in a container only with --privileged"
_NEWER = "needs Linux 5.12 or newer"
_OTHER_VERSION = "no harm where the other version works"
_GPUS = "no harm with --gpu-driver=simulated; for a real GPU install NVIDIA's driver"

ABILITIES = (
    Ability("root", 0, True, root, "sudo minirun …"),
    Ability("kernel", 0, True, kernel, _NEWER),
    Ability("interpreter", 0, True, interpreter, "make setup"),
    Ability("disk", 0, True, disk, "minirun gc, or another --root and --store"),
    Ability("images", 0, False, images, "minirun images build ubuntu"),
    Ability("image builders", 0, False, builders, "apt-get install mmdebstrap busybox-static"),
    *(Ability(f"namespace {kind}", 1, True, namespace(kind), _AS_ROOT) for kind in _KINDS),
    Ability("namespace user", 1, False, namespace("user"), "sysctl user.max_user_namespaces"),
    Ability("namespace time", 1, False, namespace("time"), "needs CONFIG_TIME_NS"),
    Ability("clone3", 1, True, clone3, "a seccomp filter around minirun may refuse it"),
    Ability("overlay", 1, True, overlay, "--root on ext4, xfs, btrfs or tmpfs; modprobe overlay"),
    Ability("mount api", 1, True, mount_api, _NEWER),
    Ability("openat2", 1, True, openat2, _NEWER),
    Ability("cgroup v1", 1, False, cgroup("v1"), _OTHER_VERSION),
    Ability("cgroup v2", 1, False, cgroup("v2"), _OTHER_VERSION),
    Ability("fifo", 2, True, fifo, "--root on a file system that holds FIFOs"),
    Ability("hooks", 3, True, hooks, "hooks need /bin/sh only where they are scripts"),
    Ability("nvidia tools", 4, False, nvidia_tools, "not needed: minirun does their work in-line"),
    Ability("mknod", 5, True, mknod, "--root on a file system mounted without nodev"),
    Ability("device rules v1", 5, False, device_rules("v1"), _OTHER_VERSION),
    Ability("device rules v2", 5, False, device_rules("v2"), _OTHER_VERSION),
    Ability("gpu", 5, False, gpu, _GPUS),
    Ability("kernel modules", 5, False, modules, "the driver must be loaded already, or SIMULATED"),
    Ability("ldconfig", 5, False, ldconfig, "apt-get install libc-bin"),
    Ability("pidfd", 6, True, pidfd, _NEWER),
    Ability("pivot_root", 7, True, pivot_root, _AS_ROOT),
    Ability("capabilities", 7, False, capabilities, "containers get all but these, with a warning"),
    Ability("raised limits", 7, False, raised_limits, "needs CAP_SYS_RESOURCE; ask for lower ones"),
    Ability("no_new_privs", 7, True, no_new_privileges, _NEWER),
    Ability("seccomp", 7, False, seccomp, "apt-get install libseccomp2"),
    Ability("terminal", 7, False, terminal, "run without -t"),
    Ability("memfd exec", 7, True, memfd, "sysctl vm.memfd_noexec=0"),
)
"""What `minirun doctor` tries, in the order of its report."""

EITHER = (("cgroup v1", "cgroup v2"), ("device rules v1", "device rules v2"))
"""Abilities of which one of each pair is needed."""
