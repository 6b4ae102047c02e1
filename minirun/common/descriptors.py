"""Few descriptors are a reason to refuse before anything is made, and not to fail halfway."""

from __future__ import annotations

import os


def need(count: int) -> None:
    """Raise OSError, EMFILE, unless this process may open `count` more files: setrlimit(2)."""
    opened: list[int] = []
    try:
        while len(opened) < count:
            opened.append(os.open("/", os.O_PATH | os.O_CLOEXEC))
    except OSError as error:
        error.filename = None  # it is not the fault of /
        raise
    finally:
        for fd in opened:
            os.close(fd)
