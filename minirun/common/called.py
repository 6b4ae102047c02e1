"""How this process was called, for a process that is to be another one like it."""

import sys


def program() -> "list[str]":
    """Return the command line up to the words of minirun: interpreter, its flags, the program."""
    return [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]]
