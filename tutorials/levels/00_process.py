"""Level 0: a process. Start a command, wait for it, and end as it ended.

    python3 00_process.py run ls -l

A container is a process. So it begins as each process does: fork(2) copies this one, exec(2) puts
a program into the copy, wait(2) says how that ended.
"""

import argparse
import os
import signal
import sys


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


def run(args):
    """Run the command in a child. Return its exit status."""
    pid = os.fork()
    if pid == 0:
        os._exit(execute(args.command))  # the child must never return from here
    _, wait_status = os.waitpid(pid, 0)
    return exit_status(wait_status)


def main():
    """Read the command line, and do what it says."""
    parser = argparse.ArgumentParser(description="level 0: a process")
    commands = parser.add_subparsers(required=True)
    run_parser = commands.add_parser("run", help="run a command")
    run_parser.add_argument("command", nargs=argparse.REMAINDER)
    run_parser.set_defaults(call=run)
    args = parser.parse_args()
    if not args.command:
        run_parser.error("a command is missing")
    sys.exit(args.call(args))


if __name__ == "__main__":
    main()
