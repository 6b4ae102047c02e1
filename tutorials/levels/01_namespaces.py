"""Level 1: namespaces. The command is process 1 of its own world, with its own host name.

    sudo python3 01_namespaces.py run --hostname box sh -c 'hostname; ps'

clone(2) is fork(2) with flags: the copy starts in new namespaces. The files are still the host's.
"""

import argparse
import os
import signal
import socket
import sys

import linux

NAMESPACES = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWUTS | linux.CLONE_NEWIPC


def isolate_mounts():
    """Keep what is mounted here from appearing on the host: mount_namespaces(7), propagation."""
    linux.mount("", "/", flags=linux.MS_REC | linux.MS_PRIVATE)


def mount_proc():
    """Mount a /proc that shows the processes of this pid namespace, instead of the host's."""
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)


def execute(command):
    """Become `command`: a list, the program's name first. Return the exit status if that fails.

    127 if there is no such program, 126 if it cannot be executed, as a shell has it.
    """
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


def init(args):
    """Be the first process of the new namespaces. Return an exit status if that fails."""
    try:
        isolate_mounts()
        mount_proc()
        socket.sethostname(args.hostname)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    return execute(args.command)


def run(args):
    """Run the command in a child, in new namespaces. Return its exit status."""
    pid = linux.clone(NAMESPACES)
    if pid == 0:
        os._exit(init(args))  # the child must never return from here
    _, wait_status = os.waitpid(pid, 0)
    return exit_status(wait_status)


def main():
    """Read the command line, and do what it says."""
    parser = argparse.ArgumentParser(description="level 1: namespaces")
    commands = parser.add_subparsers(required=True)
    run_parser = commands.add_parser("run", help="run a command")
    run_parser.add_argument("--hostname", default="level1")
    run_parser.add_argument("command", nargs=argparse.REMAINDER)
    run_parser.set_defaults(call=run)
    args = parser.parse_args()
    if not args.command:
        run_parser.error("a command is missing")
    try:
        sys.exit(args.call(args))
    except OSError as error:
        sys.exit(f"level 1: {error}")


if __name__ == "__main__":
    main()
