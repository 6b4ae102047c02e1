"""Level 7: less power. The command is root, but may do little of what root may.

    sudo python3 07_privileges.py run --user 1000:1000 ROOTFS id

Root's power is divided into capabilities(7); seccomp(2) filters the system calls; some files below
/proc and /sys are hidden, or cannot be written to; and no descriptor of the host goes along.
"""

import argparse
import ctypes
import json
import os
import re
import resource
import secrets
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import prctl

import linux

STATE = Path("/run/ladder")  # not in /tmp, which may itself be an overlay: no upperdir lies in one
NAMESPACES = {
    "mount": linux.CLONE_NEWNS, "pid": linux.CLONE_NEWPID, "uts": linux.CLONE_NEWUTS,
    "ipc": linux.CLONE_NEWIPC, "network": linux.CLONE_NEWNET, "cgroup": linux.CLONE_NEWCGROUP,
}  # fmt: skip
MOUNTS = (
    ("/proc", "proc", ["nosuid", "nodev", "noexec"]),
    ("/dev", "tmpfs", ["nosuid", "mode=755"]),
    ("/dev/pts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]),
    ("/dev/shm", "tmpfs", ["nosuid", "nodev", "noexec", "mode=1777"]),
    ("/sys", "sysfs", ["nosuid", "nodev", "noexec", "ro"]),
)
DEVICES = {
    "null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9),
    "tty": (5, 0),
}  # fmt: skip
LINKS = {
    "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
}  # fmt: skip

CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("devices", "memory", "pids", "cpu")
DRIVER = Path(os.environ.get("NVIDIA_DRIVER_ROOT", "/"))  # the directory of the driver's files
LIBRARIES = ("libnvidia-ml.so.1", "libcuda.so.1", "libnvidia-ptxjitcompiler.so.1")
PROGRAMS = ("nvidia-smi", "nvidia-debugdump")  # all files: minirun: gpu/nvidia/shared/catalog.py

CAPABILITIES = [  # docker's default
    "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID",
    "CAP_SETUID", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SYS_CHROOT",
    "CAP_MKNOD", "CAP_AUDIT_WRITE", "CAP_SETFCAP",
]  # fmt: skip
FORBIDDEN = ["mount", "umount2", "unshare", "setns", "bpf", "kexec_load", "keyctl", "ptrace"]
HIDDEN = ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/acpi", "/sys/firmware"]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
ACTIONS = {  # <seccomp.h>
    "SCMP_ACT_ALLOW": 0x7FFF0000, "SCMP_ACT_LOG": 0x7FFC0000, "SCMP_ACT_ERRNO": 0x00050000,
    "SCMP_ACT_KILL": 0, "SCMP_ACT_KILL_PROCESS": 0x80000000,
}  # fmt: skip
OPERATORS = ["-", "NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"]  # by their numbers
seccomp = ctypes.CDLL("libseccomp.so.2")  # now: after change_root the image's would be loaded
seccomp.seccomp_init.restype = ctypes.c_void_p


class Failed(Exception):
    """What went wrong, in one line, and the exit status that it gives."""

    def __init__(self, text, status=1):
        super().__init__(text)
        self.status = status


@dataclass
class Container:
    """What is known of a container. `layers` is empty if the bundle has the root filesystem."""

    directory: Path
    bundle: Path
    config: dict
    layers: str = ""

    @property
    def root(self):
        """Where its root filesystem is, in its mount namespace, until init changes its root."""
        return self.directory / "rootfs"


class Channel:
    """One side's two ends: lines of the peer come in at one, lines to it go out at the other."""

    def __init__(self, read_fd, write_fd, peer):
        self.incoming, self.outgoing, self.peer = open(read_fd), write_fd, peer

    def say(self, line):
        """Send one line. Raises Failed if the peer has died."""
        try:
            os.write(self.outgoing, f"{line}\n".encode())
        except BrokenPipeError:
            raise Failed(f"{self.peer} has died") from None

    def expect(self, line):
        """Wait for this line; for "", until the peer's end is closed. Raises the error it sent."""
        heard = self.incoming.readline().strip()
        if heard.startswith("error "):
            _, status, text = heard.split(" ", 2)
            raise Failed(text, int(status))
        if heard != line:
            raise Failed(f"{self.peer} said {heard!r}" if heard else f"{self.peer} has died")

    def fail(self, error):
        """Send an error as the last line. Return its exit status. The peer may have died of it."""
        status, text = getattr(error, "status", 1), str(error) or type(error).__name__
        try:
            self.say(f"error {status} {text}".replace("\n", " "))
        except Failed:
            print(error, file=sys.stderr)
        return status

    def close(self):
        """Close both ends. The peer reads the end of the file once no process has them open."""
        self.incoming.close()
        os.close(self.outgoing)


def make_channels(directory):
    """Make the FIFOs. Return the runtime's Channel and init's.

    All four ends are opened before clone: open(2) of one end alone waits for the other end, and
    two processes that open them in different orders wait for ever.
    """
    ends = []
    for name in ("from-init.fifo", "to-init.fifo"):
        os.mkfifo(directory / name, 0o600)
        read_fd = os.open(directory / name, os.O_RDONLY | os.O_NONBLOCK)
        ends += [read_fd, os.open(directory / name, os.O_WRONLY)]
        os.set_blocking(read_fd, True)
    return Channel(ends[0], ends[3], "init"), Channel(ends[2], ends[1], "the runtime")


def new_config(args):
    """Return a config.json for `run ROOTFS COMMAND`."""
    return {
        "ociVersion": "1.0.2",
        "root": {"path": "rootfs"},
        "hostname": args.hostname,
        "process": {
            "args": args.command,
            "env": [
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                f"NVIDIA_VISIBLE_DEVICES={args.gpus}",
            ],
            "cwd": "/",
            "user": args.user,
            "noNewPrivileges": True,
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), CAPABILITIES),
        },
        "mounts": [
            {"destination": where, "type": kind, "source": kind, "options": options}
            for where, kind, options in MOUNTS
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("mount", "pid", "uts", "ipc")],
            "resources": {
                "memory": {"limit": args.memory},
                "pids": {"limit": args.pids_limit},
                "cpu": {"quota": int(args.cpus * 100_000), "period": 100_000},
            },
            "maskedPaths": HIDDEN,
            "readonlyPaths": READ_ONLY,
            "seccomp": {
                "defaultAction": "SCMP_ACT_ALLOW",
                "syscalls": [{"names": FORBIDDEN, "action": "SCMP_ACT_ERRNO"}],
            },
        },
    }


def visible_gpus(config):
    """Return {the GPU's folder in /proc: its minor number}, of what NVIDIA_VISIBLE_DEVICES names.

    Names are indexes, UUIDs, or `all`. The index follows the PCI bus, as the folders' names do.
    """
    names = environment(config["process"]).get("NVIDIA_VISIBLE_DEVICES", "void").split(",")
    gpus = {"void": {}, "none": {}, "": {}, "all": {}}
    for index, folder in enumerate(sorted(DRIVER.glob("proc/driver/nvidia/gpus/*"))):
        facts = (folder / "information").read_text()
        uuid, minor = re.search(r"UUID:\s*(\S+).*Minor:\s*(\d+)", facts, re.DOTALL).groups()
        gpus[str(index)] = gpus[uuid] = {folder: int(minor)}
        gpus["all"] |= gpus[uuid]
    if unknown := [name for name in names if name not in gpus]:
        raise Failed(f"NVIDIA_VISIBLE_DEVICES: there is no GPU {unknown[0]!r}")
    return {folder: minor for name in names for folder, minor in gpus[name].items()}


def gpu_nodes(gpus):
    """Return the nodes that these GPUs need, {name: (major, minor)}. /proc/devices has majors."""
    uvm = re.search(r"(\d+) nvidia-uvm\n", (DRIVER / "proc/devices").read_text())
    nodes = {"nvidiactl": (195, 255), **{f"nvidia{minor}": (195, minor) for minor in gpus.values()}}
    return nodes | {"nvidia-uvm": (int(uvm[1]), 0), "nvidia-uvm-tools": (int(uvm[1]), 1)}


def driver_files():
    """Return the paths of the driver's files, below DRIVER. ld.so.cache knows the libraries."""
    listed = subprocess.run(["/sbin/ldconfig", "-r", DRIVER, "-p"], capture_output=True, text=True)
    found = {f"usr/bin/{name}": DRIVER / "usr/bin" / name for name in PROGRAMS}
    for name, path in re.findall(r"(\S+) \(.*=> /(\S+)", listed.stdout):
        if name in LIBRARIES:
            found.setdefault(name, DRIVER / path)  # the first is the one for this processor
    return [path.resolve() for path in found.values() if path.exists()]


def hook(_):
    """Be the prestart hook: put GPUs into the container whose state is on standard input."""
    state = json.load(sys.stdin)
    gpus = visible_gpus(json.loads(Path(state["bundle"], "config.json").read_text()))
    root, files, nodes = STATE / state["id"] / "rootfs", driver_files(), gpu_nodes(gpus)
    linux.setns(f"/proc/{state['pid']}/ns/mnt", linux.CLONE_NEWNS)  # where init mounts, and waits
    os.umask(0)
    for path in files:
        target = root / path.relative_to(DRIVER.resolve())
        target.parent.mkdir(0o755, parents=True, exist_ok=True)
        target.touch(0o755)
        linux.mount(path, target, flags=linux.MS_BIND)
        linux.mount("", target, flags=linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY)
    for name, (major, minor) in nodes.items():
        os.mknod(root / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    linux.mount("tmpfs", root / "proc/driver", "tmpfs", 0, "mode=755")  # only these GPUs are there
    for folder in gpus:
        shutil.copytree(folder, root / "proc" / folder.relative_to(DRIVER / "proc"))
    shutil.copy(DRIVER / "proc/driver/nvidia/version", root / "proc/driver/nvidia")
    # too simple: ldconfig reads files of the image as root. minirun: gpu/ldconfig.py
    subprocess.run(["/sbin/ldconfig", "-r", root], check=True)


def cgroup_path(container, controller):
    """Return the container's cgroup: version 1 has a tree for each controller, version 2 one."""
    tree = CGROUPS / controller
    return (tree if tree.is_dir() else CGROUPS) / f"ladder-{container.directory.name}"


def device_program(rules):
    """Return an eBPF program that allows these character devices: bpf(2), <linux/bpf.h>.

    The kernel calls it at each open and mknod: r1 points to (kind, major, minor), and r0 is to be 1
    if it is allowed. An instruction is 8 bytes: operation, registers, jump, number.
    """
    load, jump_unless, jump_if, set_to, leave = 0x61, 0x55, 0x15, 0xB7, 0x95
    program = [
        (load, 0x12, 0, 0), (0x54, 2, 0, 0xFFFF), (load, 0x13, 4, 0), (load, 0x14, 8, 0),
        (jump_if, 2, 2, 2), (set_to, 0, 0, 0), (leave, 0, 0, 0),  # 2 is a character device
    ]  # fmt: skip
    for major, minor in rules:  # r3 is the major number, r4 the minor; -1 is any
        program.append((jump_unless, 3, 2 if minor < 0 else 3, major))
        if minor >= 0:
            program.append((jump_unless, 4, 2, minor))
        program += [(set_to, 0, 0, 1), (leave, 0, 0, 0)]
    program += [(set_to, 0, 0, 0), (leave, 0, 0, 0)]
    return b"".join(struct.pack("<BBhi", *instruction) for instruction in program)


def limit_devices(container):
    """Let the cgroup use the devices below and no others."""
    rules = [*DEVICES.values(), (5, 2), (136, -1)]  # and terminals: /dev/ptmx, /dev/pts/*
    if gpus := visible_gpus(container.config):
        rules += gpu_nodes(gpus).values()
    cgroup = cgroup_path(container, "devices")
    if (cgroup / "devices.deny").exists():  # version 1
        (cgroup / "devices.deny").write_text("a")
        for major, minor in rules:
            (cgroup / "devices.allow").write_text(f"c {major}:{minor} rwm".replace("-1", "*"))
    else:
        code = ctypes.create_string_buffer(device_program(rules))
        licence = ctypes.create_string_buffer(b"GPL")
        pointers = ctypes.addressof(code), ctypes.addressof(licence)
        program = linux.bpf(5, struct.pack("IIQQ", 15, len(code) // 8, *pointers))  # BPF_PROG_LOAD
        directory = os.open(cgroup, os.O_RDONLY)
        linux.bpf(8, struct.pack("IIII", directory, program, 6, 0))  # BPF_PROG_ATTACH


def limit_resources(container):
    """Write the limits of config.json into the cgroup's files."""
    resources = container.config["linux"].get("resources") or {}
    memory, pids, cpu = (resources.get(each) or {} for each in ("memory", "pids", "cpu"))
    quota, period = cpu.get("quota") or 0, cpu.get("period") or 100_000
    for controller, limit, one, two in (  # the files of version 1 and version 2
        ("memory", memory.get("limit") or 0, "memory.limit_in_bytes", "memory.max"),
        ("pids", pids.get("limit") or 0, "pids.max", "pids.max"),
        ("cpu", quota and period, "cpu.cfs_period_us", ""),
        ("cpu", quota, "cpu.cfs_quota_us", "cpu.max"),
    ):
        cgroup = cgroup_path(container, controller)
        if limit > 0 and (cgroup / one).exists():
            (cgroup / one).write_text(str(limit))
        elif limit > 0 and two:
            (cgroup / two).write_text(f"{limit} {period}" if two == "cpu.max" else str(limit))


def make_cgroup(container, pid):
    """Put init into a cgroup of its own, with its rules and limits."""
    if (CGROUPS / "cgroup.subtree_control").exists():  # version 2: each directory hands them on
        (CGROUPS / "cgroup.subtree_control").write_text("+memory +pids +cpu")
    for controller in CONTROLLERS:
        cgroup_path(container, controller).mkdir(exist_ok=True)
    limit_devices(container)
    limit_resources(container)
    for controller in CONTROLLERS:
        (cgroup_path(container, controller) / "cgroup.procs").write_text(str(pid))


def was_killed_for_memory(container):
    """Return True if the OOM killer has killed a process of the container."""
    cgroup = cgroup_path(container, "memory")
    for name in ("memory.oom_control", "memory.events"):  # version 1, version 2
        if (cgroup / name).exists():
            return "oom_kill 0" not in (cgroup / name).read_text()
    return False


def remove_cgroup(container):
    """Remove the cgroup. No process is in it any more."""
    for controller in CONTROLLERS:
        if (path := cgroup_path(container, controller)).is_dir():
            path.rmdir()


def size(text):
    """Return the bytes that 64M means; K, M and G are known."""
    return int(text[:-1]) << 10 * ("KMG".index(text[-1].upper()) + 1)


def user(text):
    """Return config.json's `user` for 1000 or 1000:100."""
    uid, _, gid = text.partition(":")
    return {"uid": int(uid), "gid": int(gid or 0)}


def isolate_mounts():
    """Keep what is mounted here from appearing on the host: mount_namespaces(7), propagation."""
    linux.mount("", "/", flags=linux.MS_REC | linux.MS_PRIVATE)


def mount_root(container):
    """Mount the bundle's root filesystem, or an overlay of the layers and an empty directory."""
    if not container.layers:
        source = container.bundle / container.config["root"]["path"]
        linux.mount(source, container.root, flags=linux.MS_BIND | linux.MS_REC)
        return
    # too simple: no `:` and no `,` may be in a path. minirun: core/rootfs/build.py
    lower = ":".join(str(Path(each).resolve(strict=True)) for each in container.layers.split(":"))
    upper, work = container.directory / "upper", container.directory / "work"
    upper.mkdir(0o755)
    work.mkdir(0o755)
    data = f"lowerdir={lower},upperdir={upper},workdir={work}"
    linux.mount("overlay", container.root, "overlay", 0, data)


def mount_all(container):
    """Mount what config.json lists, in its order: /dev before /dev/pts."""
    for entry in container.config["mounts"]:
        # too simple: a link in the image may lead out of it. minirun: core/rootfs/inroot.py
        target = container.root / entry["destination"].lstrip("/")
        source, kind = entry.get("source", ""), entry.get("type", "")
        flags, data = linux.mount_options(entry.get("options", []))
        if kind == "cgroup":
            continue  # too simple: the container sees no cgroup. minirun: cgroups/below.py
        if flags & linux.MS_BIND:
            source = container.bundle / source
        if flags & linux.MS_BIND and not source.is_dir():
            target.parent.mkdir(0o755, parents=True, exist_ok=True)
            target.touch()
        else:
            target.mkdir(0o755, parents=True, exist_ok=True)
        linux.mount(source, target, kind, flags, data)
        if flags & linux.MS_BIND:  # the first call has ignored the other flags
            linux.mount("", target, flags=flags | linux.MS_REMOUNT)


def make_devices(root):
    """Make the nodes and links in /dev that each program expects."""
    for name, (major, minor) in DEVICES.items():
        os.mknod(root / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    for name, target in LINKS.items():
        (root / "dev" / name).symlink_to(target)


def change_root(root):
    """Make `root` the root of this mount namespace, and unmount the host's.

    After chroot(2) the host's root would still be there, for a process that knows its way out.
    pivot_root(".", ".") lays the old root upon the new one: pivot_root(2), NOTES.
    """
    os.chdir(root)
    linux.pivot_root(".", ".")
    linux.umount(".", linux.MNT_DETACH)
    os.chdir("/")


def hide(config):
    """Hide maskedPaths, and make readonlyPaths read-only. What is not there needs no hiding."""
    read_only = linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY
    if config["root"].get("readonly"):
        linux.mount("", "/", flags=read_only)
    for path in config["linux"].get("maskedPaths") or []:
        if os.path.isdir(path):
            linux.mount("tmpfs", path, "tmpfs", linux.MS_RDONLY)
        elif os.path.exists(path):
            linux.mount("/dev/null", path, flags=linux.MS_BIND)
    for path in filter(os.path.exists, config["linux"].get("readonlyPaths") or []):
        linux.mount(path, path, flags=linux.MS_BIND | linux.MS_REC)
        linux.mount("", path, flags=read_only)


class Condition(ctypes.Structure):
    """What a rule asks of an argument of the call: <seccomp.h>, struct scmp_arg_cmp."""

    _fields_ = (("index", ctypes.c_uint), ("op", ctypes.c_int),
                ("value", ctypes.c_uint64), ("valueTwo", ctypes.c_uint64))  # fmt: skip


def filter_calls(profile):
    """Load the seccomp filter of config.json. libseccomp makes a BPF program of its rules."""

    def action(row, name):
        errno = row.get("errnoRet", row.get("defaultErrnoRet", 1)) if "ERRNO" in row[name] else 0
        return ctypes.c_uint32(ACTIONS[row[name]] | errno)

    context = ctypes.c_void_p(seccomp.seccomp_init(action(profile, "defaultAction")))
    seccomp.seccomp_attr_set(context, 3, 0)  # or it would set no_new_privs, too
    for rule in profile.get("syscalls") or []:
        asked = rule.get("args") or []
        conditions = (Condition * len(asked))()
        for place, arg in enumerate(asked):
            operator = OPERATORS.index(arg["op"].removeprefix("SCMP_CMP_"))
            values = arg["value"], arg.get("valueTwo", 0)
            conditions[place] = Condition(arg["index"], operator, *values)
        for name in rule["names"]:
            number = seccomp.seccomp_syscall_resolve_name(name.encode())  # -1: it knows none
            if number != -1 and rule["action"] != profile["defaultAction"]:
                act = action(rule, "action")
                seccomp.seccomp_rule_add_array(context, act, number, len(asked), conditions)
    if error := seccomp.seccomp_load(context):
        raise OSError(-error, os.strerror(-error), "seccomp")


def drop_privileges(config):
    """Take on the user, and keep the capabilities, calls and limits that config.json names.

    The order matters: each step needs what a later one takes away.
    """
    process, profile = config["process"], config["linux"].get("seccomp")
    linux.syscall("close_range", 3, 0xFFFFFFFF, 4)  # CLOSE_RANGE_CLOEXEC
    for limit in process.get("rlimits") or []:
        resource.setrlimit(getattr(resource, limit["type"]), (limit["soft"], limit["hard"]))
    if profile and not process.get("noNewPrivileges"):
        filter_calls(profile)  # this needs CAP_SYS_ADMIN
    kept = dict.fromkeys(("bounding", "effective", "permitted", "inheritable", "ambient"), 0)
    for kind, names in (process.get("capabilities") or {}).items():
        kept[kind] = sum(1 << getattr(prctl, name) for name in names if hasattr(prctl, name))
    for number in range(prctl.CAP_LAST_CAP + 1):
        if not kept["bounding"] >> number & 1:
            prctl.capbset_drop(number)
    held = sum(1 << n for n in range(prctl.CAP_LAST_CAP + 1) if prctl.capbset_read(n))
    prctl.set_keepcaps(True)  # setuid(2) would clear the permitted set
    user = process.get("user") or {}
    os.setgroups(user.get("additionalGids") or [])
    os.setgid(user.get("gid", 0))
    os.setuid(user.get("uid", 0))
    linux.capset(*(kept[kind] & held for kind in ("effective", "permitted", "inheritable")))
    for number in range(prctl.CAP_LAST_CAP + 1):
        if kept["ambient"] >> number & 1:
            linux.libc.prctl(47, 2, number, 0, 0)  # PR_CAP_AMBIENT_RAISE: python-prctl has it not
    if process.get("noNewPrivileges"):
        prctl.set_no_new_privs(True)
        if profile:
            filter_calls(profile)


def environment(process):
    """Return the variables of config.json's `process`, or of a hook, as a dict."""
    return dict(each.split("=", 1) for each in process.get("env", []))


def execute(process):
    """Become the command that config.json's `process` describes.

    Raises Failed: 127 if there is no such program, 126 if it cannot be executed, as a shell has it.
    """
    os.umask(0o022)
    os.chdir(process["cwd"])
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and exec(2) keeps that
    command = process["args"]
    try:
        os.execvpe(command[0], command, environment(process))
    except FileNotFoundError:
        raise Failed(f"{command[0]}: not found", 127) from None
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}", 126) from None


def run_hooks(container, pid, kind):
    """Run the hooks of one kind. Raises Failed if one fails: then there is no container."""
    state = {"ociVersion": "1.0.2", "id": container.directory.name, "status": "creating",
             "pid": pid, "bundle": str(container.bundle)}  # fmt: skip
    for hook in container.config.get("hooks", {}).get(kind, []):
        try:
            # too simple: a timeout ends the hook, and not its children. minirun: core/hooks.py
            done = subprocess.run(
                hook.get("args") or [hook["path"]], executable=hook["path"],
                input=json.dumps(state), capture_output=True, text=True,
                timeout=hook.get("timeout"), env=environment(hook),
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failed(f"{kind} hook: {error}") from None
        if done.returncode:
            said = done.stderr.strip()
            raise Failed(f"{kind} hook {hook['path']}: exit status {done.returncode}: {said}")


def exit_status(wait_status):
    """Return the exit status that wait(2) reports; 128 and the signal if a signal ended it."""
    code = os.waitstatus_to_exitcode(wait_status)  # of a signal: its number, negative
    return code if code >= 0 else 128 - code


def init(container, runtime):
    """Be the first process of the new namespaces. Return the exit status if that fails.

    The error goes to the runtime, as one line.
    """
    prctl.set_pdeathsig(signal.SIGKILL)  # no command outlives its runtime
    os.umask(0)  # what is made here gets the mode that is written here
    try:
        isolate_mounts()
        mount_root(container)
        mount_all(container)
        make_devices(container.root)
        if "hostname" in container.config:
            socket.sethostname(container.config["hostname"])
        runtime.say("RUN_HOOKS")
        runtime.expect("HOOKS_DONE")
        change_root(container.root)
        hide(container.config)
        drop_privileges(container.config)
        prctl.set_pdeathsig(signal.SIGKILL)  # once more: setuid(2) has cleared it
        execute(container.config["process"])
    except BaseException as error:  # or the runtime's own clean-up would be done in here, too
        return runtime.fail(error)


def launch(container):
    """Clone init, and let it go on to its command. Return its pid. Raises Failed, OSError."""
    channel, init_channel = make_channels(container.directory)
    pid = linux.clone(sum(NAMESPACES[e["type"]] for e in container.config["linux"]["namespaces"]))
    if pid == 0:
        channel.close()
        os._exit(init(container, init_channel))  # the child must never return from here
    init_channel.close()
    try:
        channel.expect("RUN_HOOKS")
        make_cgroup(container, pid)
        run_hooks(container, pid, "prestart")
        run_hooks(container, pid, "createRuntime")
        channel.say("HOOKS_DONE")
        channel.expect("")  # exec has closed init's end
    except BaseException:  # whatever it is: init would wait for ever
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    return pid


def load(args):
    """Return the container that the command line asks for: a bundle's, or a new one of layers."""
    directory = STATE / secrets.token_hex(6)
    bundle = Path(args.bundle).resolve() if args.bundle else directory
    config = json.loads((bundle / "config.json").read_text()) if args.bundle else new_config(args)
    if visible_gpus(config):  # as docker --gpus and NVIDIA's own runtime add theirs
        command = [sys.executable, str(Path(__file__).resolve()), "hook"]
        add = {"path": command[0], "args": command, "env": [f"NVIDIA_DRIVER_ROOT={DRIVER}"]}
        config.setdefault("hooks", {}).setdefault("prestart", []).append(add)
    STATE.mkdir(0o700, exist_ok=True)  # no user of the host reaches the container's files
    (directory / "rootfs").mkdir(0o755, parents=True)
    if not args.bundle:
        (bundle / "config.json").write_text(json.dumps(config, indent=1))
    return Container(directory, bundle, config, args.rootfs)


def remove(container):
    """Remove what is left of a container that has ended."""
    remove_cgroup(container)
    container.root.rmdir()  # not if it is mounted on: rmtree would empty that
    shutil.rmtree(container.directory)


def run(args):
    """Run a container to its end. Return its command's exit status. Raises Failed, OSError."""
    container = load(args)
    try:
        _, wait_status = os.waitpid(launch(container), 0)
        if was_killed_for_memory(container):
            print("level 7: a process was killed: the memory limit was reached", file=sys.stderr)
        return exit_status(wait_status)
    finally:
        remove(container)


def main():
    """Read the command line, and do what it says."""
    parser = argparse.ArgumentParser(description="level 7: less power")
    commands = parser.add_subparsers(required=True)
    run_parser = commands.add_parser("run", help="run a command")
    run_parser.add_argument("--bundle")
    run_parser.add_argument("--gpus", default="void", help="0,1 or all")
    run_parser.add_argument("--user", type=user, default={"uid": 0, "gid": 0}, help="1000:1000")
    run_parser.add_argument("--memory", type=size, default=0, help="such as 64M")
    run_parser.add_argument("--pids-limit", type=int, default=0)
    run_parser.add_argument("--cpus", type=float, default=0, help="such as 1.5")
    run_parser.add_argument("--hostname", default="level7")
    run_parser.add_argument("rootfs", nargs="?")
    run_parser.add_argument("command", nargs=argparse.REMAINDER)
    run_parser.set_defaults(call=run)
    commands.add_parser("hook", help="put GPUs into a container").set_defaults(call=hook)
    args = parser.parse_args()
    if args.call is run and not args.command and not args.bundle:
        run_parser.error("a command is missing")
    try:
        sys.exit(args.call(args))
    except (OSError, Failed) as error:
        print(f"level 7: {error}", file=sys.stderr)
        sys.exit(getattr(error, "status", 1))


if __name__ == "__main__":
    main()
