#!/usr/bin/env python3
"""Level 9: a runtime. podman, containerd and docker start containers with it, in place of runc.

    sudo podman --runtime "$PWD/09_runtime.py" run --rm busybox echo hello

An engine wants five commands: create makes all but the command, and leaves init waiting at a third
FIFO; start lets it go on; state says how it is; kill sends a signal; delete removes what is left.
Between two of them no process of the runtime lives: what they must know is in state.json.

The engine brings layers, network and config.json: what level 8 did for them is not here any more.
"""

import argparse
import ctypes
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path

import prctl

import linux

STATE = Path("/run/ladder")  # not in /tmp, which may itself be an overlay: no upperdir lies in one
NAMESPACES = {
    "mount": linux.CLONE_NEWNS, "pid": linux.CLONE_NEWPID, "uts": linux.CLONE_NEWUTS,
    "ipc": linux.CLONE_NEWIPC, "network": linux.CLONE_NEWNET, "cgroup": linux.CLONE_NEWCGROUP,
}  # fmt: skip
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
    """What is known of a container. `console` is the engine's socket for its terminal."""

    directory: Path
    bundle: Path
    config: dict
    console: str = ""
    pid: int = 0

    @property
    def root(self):
        """Where its root filesystem is, in its mount namespace, until init changes its root."""
        return self.directory / "rootfs"

    @property
    def status(self):
        """Return created, running or stopped. Too simple: the kernel gives pids to others later."""
        try:
            letter = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):  # the latter: it has just ended
            return "stopped"
        if letter in "ZX":  # a zombie: its parent has not waited for it yet
            return "stopped"
        return "created" if (self.directory / "exec.fifo").exists() else "running"

    def state(self, status=""):
        """Return its state, as hooks and engines read it: runtime-spec, runtime.md."""
        return {
            "ociVersion": "1.0.2", "id": self.directory.name, "status": status or self.status,
            "pid": self.pid, "bundle": str(self.bundle),
            "annotations": self.config.get("annotations") or {},
        }  # fmt: skip


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


def hook(args):
    """Be the prestart hook: put GPUs into the container whose state is on standard input."""
    state = json.load(sys.stdin)
    gpus = visible_gpus(json.loads(Path(state["bundle"], "config.json").read_text()))
    root, files, nodes = Path(args.root, state["id"], "rootfs"), driver_files(), gpu_nodes(gpus)
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
    """Return the container's cgroup, where the engine wants it: it reads the files there.

    Version 1 has a tree for each controller, version 2 one.
    """
    tree = CGROUPS / controller
    path = container.config["linux"].get("cgroupsPath") or f"ladder-{container.directory.name}"
    return (tree if tree.is_dir() else CGROUPS) / path.lstrip("/").replace(":", "/")


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
        cgroup_path(container, controller).mkdir(parents=True, exist_ok=True)
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


def isolate_mounts():
    """Keep what is mounted here from appearing on the host: mount_namespaces(7), propagation."""
    linux.mount("", "/", flags=linux.MS_REC | linux.MS_PRIVATE)


def mount_root(container):
    """Bind the bundle's root filesystem: pivot_root wants a mount point."""
    source = container.bundle / container.config["root"]["path"]
    linux.mount(source, container.root, flags=linux.MS_BIND | linux.MS_REC)


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


def connect_console(container):
    """Return a connection to the socket of the engine that wants the terminal, if it wants one."""
    if not container.config["process"].get("terminal"):
        return None
    console = socket.socket(socket.AF_UNIX)
    console.connect(container.console)
    return console


def use_terminal(console):
    """Make a terminal in the container's /dev/pts, and send its other end to the engine."""
    master, slave = os.openpty()
    socket.send_fds(console, [b"/dev/ptmx"], [master])
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in (0, 1, 2):
        os.dup2(slave, fd)


def find_command(process):
    """Raise Failed if there is no such program. Engines read the words."""
    name = process["args"][0]
    os.makedirs(process["cwd"], exist_ok=True)
    os.chdir(process["cwd"])
    if not shutil.which(name, path=environment(process).get("PATH", "")):
        status, why = 127, "executable file not found in $PATH"
        if os.path.exists(name):
            status, why = 126, "permission denied"
        raise Failed(f'exec: "{name}": {why}', status)


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


def run_hooks(container, kind, status):
    """Run the hooks of one kind. Raises Failed if one fails."""
    state = container.state(status)
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
        for row in container.config["linux"]["namespaces"]:
            if row.get("path"):  # an engine has made it: podman its network
                linux.setns(row["path"], NAMESPACES[row["type"]])
        exec_fifo = os.open(container.directory / "exec.fifo", os.O_RDWR)
        console = connect_console(container)
        isolate_mounts()
        mount_root(container)
        mount_all(container)
        make_devices(container.root)
        if "hostname" in container.config:
            socket.sethostname(container.config["hostname"])
        runtime.say("RUN_HOOKS")
        runtime.expect("HOOKS_DONE")
        change_root(container.root)
        if console:
            use_terminal(console)
        hide(container.config)
        find_command(container.config["process"])
        drop_privileges(container.config)
        prctl.set_pdeathsig(0)  # from here on it lives without the runtime
        runtime.say("CREATED")
        os.read(exec_fifo, 1)  # waits for `start`
        execute(container.config["process"])
    except BaseException as error:  # or the runtime's own clean-up would be done in here, too
        return runtime.fail(error)


def launch(container):
    """Clone init, and let it go on to exec.fifo. Return its pid. Raises Failed, OSError."""
    os.mkfifo(container.directory / "exec.fifo", 0o600)
    channel, init_channel = make_channels(container.directory)
    rows = container.config["linux"]["namespaces"]
    if others := {row["type"] for row in rows} - {*NAMESPACES}:
        raise Failed(f"namespaces that this program does not make: {', '.join(others)}")
    pid = linux.clone(sum(NAMESPACES[row["type"]] for row in rows if not row.get("path")))
    if pid == 0:
        channel.close()
        os._exit(init(container, init_channel))  # the child must never return from here
    init_channel.close()
    container.pid = pid
    try:
        channel.expect("RUN_HOOKS")
        make_cgroup(container, pid)
        run_hooks(container, "prestart", "creating")
        run_hooks(container, "createRuntime", "creating")
        channel.say("HOOKS_DONE")
        channel.expect("CREATED")
    except BaseException:  # whatever it is: init would wait for ever
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    return pid


def load(args):
    """Return the container that an engine wants, of its bundle. Raises Failed, OSError."""
    directory, bundle = Path(args.root, args.id), Path(args.bundle).resolve()
    if "/" in args.id or directory.exists():
        raise Failed(f"container id {args.id!r} is in use, or is none")
    config = json.loads((bundle / "config.json").read_text())
    if visible_gpus(config):  # as NVIDIA's own runtime adds its hook
        command = [sys.executable, str(Path(__file__).resolve()), "--root", args.root, "hook"]
        add = {"path": command[0], "args": command, "env": [f"NVIDIA_DRIVER_ROOT={DRIVER}"]}
        config.setdefault("hooks", {}).setdefault("prestart", []).append(add)
    Path(args.root).mkdir(0o700, parents=True, exist_ok=True)
    (directory / "rootfs").mkdir(0o755, parents=True)
    return Container(directory, bundle, config, args.console_socket)


def remove(container):
    """Remove what is left of a container that has ended."""
    remove_cgroup(container)
    container.root.rmdir()  # not if it is mounted on: rmtree would empty that
    shutil.rmtree(container.directory)


def make(args):
    """Make a container whose init waits for `start`. Return it. Raises Failed, OSError."""
    container = load(args)
    try:
        launch(container)
        (container.directory / "state.json").write_text(json.dumps(container.state()))
        if args.pid_file:
            Path(args.pid_file).write_text(str(container.pid))
    except BaseException:
        remove(container)
        raise
    return container


def create(args):
    """Make a container up to its command."""
    make(args)


def find(args):
    """Return the container that has this id. Raises Failed."""
    directory = Path(args.root, args.id)
    if "/" in args.id or not (directory / "state.json").exists():
        raise Failed(f"container {args.id!r} does not exist")
    facts = json.loads((directory / "state.json").read_text())
    config = json.loads(Path(facts["bundle"], "config.json").read_text())
    return Container(directory, Path(facts["bundle"]), config, pid=facts["pid"])


def start(args):
    """Let the init of a created container execute its command."""
    container = find(args)
    if container.status != "created":
        raise Failed(f"cannot start a container that is {container.status}")
    exec_fifo = os.open(container.directory / "exec.fifo", os.O_WRONLY)
    (container.directory / "exec.fifo").unlink()
    os.write(exec_fifo, b"\n")
    run_hooks(container, "poststart", "running")


def state(args):
    """Print a container's state."""
    print(json.dumps(find(args).state(), indent=1))


def kill(args):
    """Send a signal to a container's init: TERM, SIGTERM or 15."""
    container, name = find(args), args.signal.upper().removeprefix("SIG")
    if container.status == "stopped" and not args.all:
        raise Failed("container not running")
    if container.status != "stopped":
        os.kill(container.pid, int(name) if name.isdigit() else signal.Signals[f"SIG{name}"])


def delete(args):
    """Remove a container that has stopped; with --force, end it first."""
    if args.force and not Path(args.root, args.id, "state.json").exists():
        return
    container = find(args)
    if container.status == "running" and not args.force:
        raise Failed(f"container {args.id} is not stopped: running")
    if container.status != "stopped":  # its init, too, if it still waits for `start`
        os.kill(container.pid, signal.SIGKILL)
        while container.status != "stopped":
            time.sleep(0.01)
    remove(container)
    run_hooks(container, "poststop", "stopped")


def run(args):
    """Run a container to its end. Return its command's exit status. Raises Failed, OSError."""
    container = make(args)
    try:
        start(args)
        _, wait_status = os.waitpid(container.pid, 0)
        if was_killed_for_memory(container):
            print("level 9: a process was killed: the memory limit was reached", file=sys.stderr)
        return exit_status(wait_status)
    finally:
        remove(container)


def log(path, error):
    """Write an error as an engine reads it: a line of JSON."""
    line = {"level": "error", "msg": str(error), "time": time.strftime("%Y-%m-%dT%H:%M:%SZ")}
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\n")


def main():
    """Read the command line, and do what it says."""
    parser = argparse.ArgumentParser(description="level 9: a runtime")
    parser.add_argument("--root", default=str(STATE), help="the directory of its containers")
    parser.add_argument("--log", default="/dev/null", help="the file that errors are written to")
    parser.add_argument("--log-format")
    parser.add_argument("--systemd-cgroup", action="store_true")
    commands = parser.add_subparsers(required=True)
    for call in (run, create, start, state, kill, delete, hook):
        command = commands.add_parser(call.__name__, help=call.__doc__.splitlines()[0])
        command.set_defaults(call=call)
        if call in (run, create):
            command.add_argument("-b", "--bundle", default=".")
            command.add_argument("--pid-file")
            command.add_argument("--console-socket")
            command.add_argument("--no-pivot", action="store_true")
            command.add_argument("--no-new-keyring", action="store_true")
        if call is kill:
            command.add_argument("-a", "--all", action="store_true")
        if call is delete:
            command.add_argument("-f", "--force", action="store_true")
        if call is not hook:
            command.add_argument("id")
        if call is kill:
            command.add_argument("signal", nargs="?", default="TERM")
    args = parser.parse_args()
    try:
        sys.exit(args.call(args))
    except (OSError, Failed) as error:
        log(args.log, error)
        print(f"level 9: {error}", file=sys.stderr)
        sys.exit(getattr(error, "status", 1))


if __name__ == "__main__":
    main()
