"""What the kernel does when it is asked: each call is made as the stages make it.

Every function runs in a process of its own, so it may change that as it likes.
"""

import errno
import os
import resource
import select
import stat
import subprocess
from collections.abc import Callable

from minirun import cgroups
from minirun.cgroups import hierarchies
from minirun.cgroups.rules import DeviceRule
from minirun.core.kernel import files, mountinfo, mounts, namespaces, process
from minirun.core.process import caps, trampoline
from minirun.faces.doctor.attempts import Lacking, Workplace, cgroup_name, in_child, result_of
from minirun.oci.seccomp import compiler as filters


def namespace(kind: str) -> Callable[[Workplace], str]:
    """Return the attempt to enter a new namespace of one kind."""

    def attempt(place: Workplace) -> str:
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


def clone3(place: Workplace) -> str:
    """A child in a new mount and pid namespace, held by a pidfd."""
    pid, pidfd = namespaces.clone3(namespaces.FLAGS["mount"] | namespaces.FLAGS["pid"])
    if pid == 0:
        os._exit(7 if os.getpid() == 1 else 8)
    status = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    if not status or status.si_status != 7:
        raise Lacking(f"the child saw no pid 1: {status}")
    return "a child that is pid 1, and a pidfd"


def overlay(place: Workplace) -> str:
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


def mount_api(place: Workplace) -> str:
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


def openat2(place: Workplace) -> str:
    """Paths looked up inside a directory: RESOLVE_IN_ROOT."""
    fd = os.open(place.scratch, os.O_PATH | os.O_DIRECTORY)
    os.symlink("/", os.path.join(place.scratch, "to-root"))
    inside = files.openat2(fd, "to-root", os.O_PATH, files.RESOLVE_IN_ROOT)
    if not os.path.sameopenfile(fd, inside):
        raise Lacking("an absolute link led outside")
    return "an absolute link stays inside"


def cgroup(version: str) -> Callable[[Workplace], str]:
    """Return the attempt to make a cgroup of one version and to let a process in."""

    def joins(group: cgroups.Cgroup) -> str:
        group.join()
        return _controllers(version)

    return lambda place: _in_cgroup(place, version, joins)


def _in_cgroup(
    place: Workplace,
    version: str,
    attempt: Callable[[cgroups.Cgroup], str],
    rules: tuple[DeviceRule, ...] | None = None,
) -> str:
    """Make a cgroup, let a child attempt something with it, and remove it."""
    group = cgroups.open_cgroup(cgroup_name(place), version)
    group.create()
    try:
        if rules is not None:
            group.set_device_rules(rules)
        return result_of(lambda: attempt(group))
    finally:
        group.remove()


def _controllers(version: str) -> str:
    """The controllers that a version has on this machine, and so the limits it can keep."""
    mounted = [h for h in hierarchies.mounted() if h.version == int(version[1])]
    names = sorted(name for h in mounted for name in h.names if not name.startswith("name="))
    if version == "v2":
        with open(f"{mounted[0].path}/cgroup.controllers", encoding="ascii") as file:
            names = file.read().split()
    return ", ".join(names) or f"{mounted[0].path}, without controllers: no limits"


def device_rules(version: str) -> Callable[[Workplace], str]:
    """Return the attempt to have a cgroup of one version allow /dev/zero and deny /dev/null."""

    def tries(group: cgroups.Cgroup) -> str:
        group.join()
        os.close(os.open("/dev/zero", os.O_RDONLY))
        try:
            os.open("/dev/null", os.O_RDONLY)
        except PermissionError:
            return "denied devices cannot be opened"
        raise Lacking("a denied device was opened")

    allowed = (DeviceRule(True, "c", 1, 5, "rwm"),)
    return lambda place: _in_cgroup(place, version, tries, allowed)


def fifo(place: Workplace) -> str:
    """A named FIFO where containers are kept: init's question and the runtime's answer."""
    path = os.path.join(place.scratch, "fifo")
    files.mknodat(mounts.AT_FDCWD, path, stat.S_IFIFO | 0o600)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.write(os.open(path, os.O_WRONLY), b"?")
    return f"{len(os.read(reader, 8))} byte went through"


def pidfd(place: Workplace) -> str:
    """A pidfd that wakes its holder when the process ends."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    poll = select.poll()
    poll.register(os.pidfd_open(pid), select.POLLIN)
    if not poll.poll(5000):
        raise Lacking("the end of a child went unnoticed")
    return "the end of a process is noticed"


def hooks(place: Workplace) -> str:
    """A program in a process group of its own, without environment: how a hook is run."""
    done = subprocess.run(["/bin/sh", "-c", "exit 0"], env={}, start_new_session=True, timeout=10)
    if done.returncode:
        raise Lacking(f"/bin/sh exited {done.returncode}")
    return "/bin/sh ran and ended"


def mknod(place: Workplace) -> str:
    """A device node made in a tmpfs of its own, as a container's /dev is, and opened."""
    _own_mounts()
    path = os.path.join(place.scratch, "dev")
    os.mkdir(path)
    mounts.mount("tmpfs", path, "tmpfs", mounts.MS_NOSUID, "size=64k")
    files.mknodat(mounts.AT_FDCWD, f"{path}/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.close(os.open(f"{path}/null", os.O_WRONLY))
    return "on a tmpfs, as a container's /dev is"


def pivot_root(place: Workplace) -> str:
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


def capabilities(place: Workplace) -> str:
    """Every capability of this kernel can be granted."""
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
        last = int(file.read())
    held = caps.held()
    lacking = [n for n, number in caps.NUMBERS.items() if number <= last and not held >> number & 1]
    if lacking:
        raise Lacking(f"missing: {', '.join(lacking)}")
    return f"all {last + 1}"


def no_new_privileges(place: Workplace) -> str:
    """prctl(2), PR_SET_NO_NEW_PRIVS."""
    process.prctl(process.PR_SET_NO_NEW_PRIVS, 1)
    return "set"


def seccomp(place: Workplace) -> str:
    """A filter, compiled by libseccomp, that makes one call fail."""
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


def raised_limits(place: Workplace) -> str:
    """A hard limit above the present one: CAP_SYS_RESOURCE."""
    _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
        hard = 1 << 20
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard + 4096))
    except ValueError:  # what the module makes of EPERM
        raise Lacking("a hard limit cannot be raised") from None
    return "can be raised"


def terminal(place: Workplace) -> str:
    """A pseudo-terminal out of a devpts of its own, as -t makes it."""
    _own_mounts()
    target = os.path.join(place.scratch, "pts")
    os.mkdir(target)
    options = "newinstance,ptmxmode=0666,mode=0620,gid=5"
    mounts.mount("devpts", target, "devpts", mounts.MS_NOSUID | mounts.MS_NOEXEC, options)
    os.close(os.open(f"{target}/ptmx", os.O_RDWR | os.O_NOCTTY))
    return "devpts, newinstance"


def memfd(place: Workplace) -> str:
    """A sealed memory file that can be executed: how init leaves the interpreter behind."""
    ours, theirs = os.pipe()
    fd = trampoline.open_sealed(theirs)
    pid = os.fork()
    if pid == 0:
        os.set_inheritable(theirs, True)
        os.execve(fd, ["/bin/true", "true"], {})
    os.close(theirs)
    error = os.read(ours, 4)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if error or status:
        raise Lacking(f"it ended with status {status}, errno {int.from_bytes(error, 'little')}")
    return "executed"


def root_mount(place: Workplace) -> str:
    """/ is a mount point, without which pivot_root(2) fails; in a chroot(2) it may be none."""
    filesystem = _filesystem("/")
    if filesystem == "?":
        raise Lacking("/ is no mount point, as in a chroot")
    return f"/ is a mount of {filesystem}"


def _own_mounts() -> None:
    """Give this process a mount namespace of its own, from which nothing goes back."""
    namespaces.unshare(namespaces.FLAGS["mount"])
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)


def _filesystem(path: str) -> str:
    """The type of the file system that `path` lies on: the longest mount point that fits."""
    best = ("", "?")
    for mount in mountinfo.read():
        if f"{path}/".startswith(mount.mount_point.rstrip("/") + "/"):
            best = max(best, (mount.mount_point, mount.fs_type))
    return best[1]
