"""The command line that starts this program again, for a process that does so."""

from __future__ import annotations

import os
import sys


def program() -> list[str]:
    """Return the command line up to the words of minirun: interpreter, its flags, the program.

    The program's path is absolute: the other process may begin in another folder.
    """
    words = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    if words and words[-2:-1] != ["-m"]:
        words[-1] = os.path.abspath(words[-1])
    return [sys.executable, *words]
