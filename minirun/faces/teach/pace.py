"""How slow this machine is: limits of time in checks are those of a usual one, and longer here."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import cache

_USUAL_START, _SLOWEST = 0.1, 8.0
"""Seconds in which a Python starts on a usual one, and more; how many times slower one may be."""


@cache
def pace() -> float:
    """Return how many times slower this machine is than a usual one, from 1 to 8.

    By how long a Python takes to start, the fastest of three: an emulated machine needs 0.5 s.
    """
    taken = []
    for _ in range(3):
        begin = time.monotonic()
        subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)
        taken.append(time.monotonic() - begin)
    return min(max(min(taken) / _USUAL_START, 1.0), _SLOWEST)
