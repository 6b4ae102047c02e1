"""Level 3: runtime and init. They agree over two FIFOs, so each knows what the other has done.

    runtime                                init
       │ ── clone ─────────────────────────▶ │  builds its root filesystem
       │ ◀────────────── RUN_HOOKS ───────── │  "I am ready, and wait"
       │ ── HOOKS_DONE ────────────────────▶ │  changes its root
       │ ◀────────── end of file ─────────── │  exec has closed its end: the command runs
       │ ◀────────── error STATUS TEXT ───── │  instead of any of them

    sudo python3 03_handshake.py run "$(minirun level image busybox)" sh

The moment between the two messages is the half-started container: all is mounted, nothing runs.
If one side dies, the other reads the end of the file, and does not wait for ever.
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

import prctl

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


class Failed(Exception):
    """What went wrong, in one line, and the exit status that it gives."""

    def __init__(self, text, status=1):
        super().__init__(text)
        self.status = status


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
    """Become `command`: a list, the program's name first.

    Raises Failed: 127 if there is no such program, 126 if it cannot be executed, as a shell has it.
    """
    os.umask(0o022)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and exec(2) keeps that
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        raise Failed(f"{command[0]}: not found", 127) from None
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}", 126) from None


def exit_status(wait_status):
    """Return the exit status that wait(2) reports; 128 and the signal if a signal ended it."""
    code = os.waitstatus_to_exitcode(wait_status)  # of a signal: its number, negative
    return code if code >= 0 else 128 - code


def init(args, directory, runtime):
    """Be the first process of the new namespaces. Return the exit status if that fails.

    The error goes to the runtime, as one line.
    """
    prctl.set_pdeathsig(signal.SIGKILL)  # no command outlives its runtime
    os.umask(0)  # what is made here gets the mode that is written here
    try:
        isolate_mounts()
        root = mount_root(args.rootfs, directory)
        mount_all(root)
        make_devices(root)
        socket.sethostname(args.hostname)
        runtime.say("RUN_HOOKS")
        runtime.expect("HOOKS_DONE")
        change_root(root)
        execute(args.command)
    except BaseException as error:  # or the runtime's own clean-up would be done in here, too
        return runtime.fail(error)


def launch(args, directory):
    """Clone init, and let it go on to its command. Return its pid. Raises Failed, OSError."""
    channel, init_channel = make_channels(directory)
    pid = linux.clone(NAMESPACES)
    if pid == 0:
        channel.close()
        os._exit(init(args, directory, init_channel))  # the child must never return from here
    init_channel.close()
    try:
        channel.expect("RUN_HOOKS")
        channel.say("HOOKS_DONE")  # level 4 runs hooks before it says so
        channel.expect("")  # exec has closed init's end
    except BaseException:  # whatever it is: init would wait for ever
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    return pid


def run(args):
    """Run the command in a child, in new namespaces. Return its exit status. Raises Failed."""
    directory = STATE / secrets.token_hex(6)
    STATE.mkdir(0o700, exist_ok=True)  # no user of the host reaches the container's files
    (directory / "rootfs").mkdir(0o755, parents=True)
    try:
        _, wait_status = os.waitpid(launch(args, directory), 0)
        return exit_status(wait_status)
    finally:
        (directory / "rootfs").rmdir()  # not if it is mounted on: rmtree would empty that
        shutil.rmtree(directory)


def main():
    """Read the command line, and do what it says."""
    parser = argparse.ArgumentParser(description="level 3: runtime and init")
    commands = parser.add_subparsers(required=True)
    run_parser = commands.add_parser("run", help="run a command")
    run_parser.add_argument("--hostname", default="level3")
    run_parser.add_argument("rootfs")
    run_parser.add_argument("command", nargs=argparse.REMAINDER)
    run_parser.set_defaults(call=run)
    args = parser.parse_args()
    if not args.command:
        run_parser.error("a command is missing")
    try:
        sys.exit(args.call(args))
    except (OSError, Failed) as error:
        print(f"level 3: {error}", file=sys.stderr)
        sys.exit(getattr(error, "status", 1))


if __name__ == "__main__":
    main()
