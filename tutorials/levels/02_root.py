"""Level 2: a root. The command sees the files of an image, and writes beside them.

    sudo python3 02_root.py run "$(minirun level image busybox)" sh -c 'ls /; touch /new'

ROOTFS is a directory, or the layers of an image as overlay's lowerdir has them: joined by `:`, the
topmost first. OverlayFS lays an empty directory on top, which takes all that is written.
"""

import argparse
import os
import secrets
import shutil
import signal
import socket
import stat
import sys
from pathlib import Path

import linux

NAMESPACES = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWUTS | linux.CLONE_NEWIPC
STATE = Path("/run/ladder")  # not in /tmp, which may itself be an overlay: no upperdir lies in one
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


def isolate_mounts():
    """Keep what is mounted here from appearing on the host: mount_namespaces(7), propagation."""
    linux.mount("", "/", flags=linux.MS_REC | linux.MS_PRIVATE)


def mount_root(rootfs, directory):
    """Mount an overlay of `rootfs` and an empty upper directory. Return where it is mounted."""
    for name in ("upper", "work"):
        (directory / name).mkdir(0o755)
    # too simple: no `:` and no `,` may be in a path. minirun: core/rootfs/build.py
    lower = ":".join(str(Path(layer).resolve(strict=True)) for layer in rootfs.split(":"))
    data = f"lowerdir={lower},upperdir={directory}/upper,workdir={directory}/work"
    linux.mount("overlay", directory / "rootfs", "overlay", 0, data)
    return directory / "rootfs"


def mount_all(root):
    """Mount the file systems that each program expects, in their order: /dev before /dev/pts."""
    for where, kind, options in MOUNTS:
        target = root / where.lstrip("/")
        target.mkdir(0o755, parents=True, exist_ok=True)
        flags, data = linux.mount_options(options)
        linux.mount(kind, target, kind, flags, data)


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


def execute(command):
    """Become `command`: a list, the program's name first. Return the exit status if that fails.

    127 if there is no such program, 126 if it cannot be executed, as a shell has it.
    """
    os.umask(0o022)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and exec(2) keeps that
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        print(f"{command[0]}: not found", file=sys.stderr)
        return 127
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 126


def exit_status(wait_status):
    """Return the exit status that wait(2) reports; 128 and the signal if a signal ended it."""
    code = os.waitstatus_to_exitcode(wait_status)  # of a signal: its number, negative
    return code if code >= 0 else 128 - code


def init(args, directory):
    """Be the first process of the new namespaces. Return an exit status if that fails."""
    os.umask(0)  # what is made here gets the mode that is written here
    try:
        isolate_mounts()
        root = mount_root(args.rootfs, directory)
        mount_all(root)
        make_devices(root)
        socket.sethostname(args.hostname)
        change_root(root)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    return execute(args.command)


def run(args):
    """Run the command in a child, in new namespaces. Return its exit status."""
    directory = STATE / secrets.token_hex(6)
    STATE.mkdir(0o700, exist_ok=True)  # no user of the host reaches the container's files
    (directory / "rootfs").mkdir(0o755, parents=True)
    pid = linux.clone(NAMESPACES)
    if pid == 0:
        os._exit(init(args, directory))  # the child must never return from here
    _, wait_status = os.waitpid(pid, 0)
    (directory / "rootfs").rmdir()  # not if it is mounted on: rmtree would empty that
    shutil.rmtree(directory)
    return exit_status(wait_status)


def main():
    """Read the command line, and do what it says."""
    parser = argparse.ArgumentParser(description="level 2: a root")
    commands = parser.add_subparsers(required=True)
    run_parser = commands.add_parser("run", help="run a command")
    run_parser.add_argument("--hostname", default="level2")
    run_parser.add_argument("rootfs")
    run_parser.add_argument("command", nargs=argparse.REMAINDER)
    run_parser.set_defaults(call=run)
    args = parser.parse_args()
    if not args.command:
        run_parser.error("a command is missing")
    try:
        sys.exit(args.call(args))
    except OSError as error:
        sys.exit(f"level 2: {error}")


if __name__ == "__main__":
    main()
