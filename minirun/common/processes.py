"""The processes of this machine, as /proc has them."""

from __future__ import annotations

import os

from minirun.core.keeping.numbers import whole


def pids(proc: str = "/proc") -> list[int]:
    """Return the pids of all that a /proc shows. Raises OSError."""
    return [pid for name in os.listdir(proc) if (pid := whole(name)) is not None]
