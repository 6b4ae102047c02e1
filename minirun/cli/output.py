"""What a command prints on standard output, at once: there is no buffer to be lost."""

from __future__ import annotations

import os

from minirun.core.keeping.visible import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def show(lines: Iterable[str]) -> int:
    """Print lines, made printable whatever they hold; return 0. Raises OSError."""
    return write("".join(f"{clean(line)}\n" for line in lines))


def write(text: str, fd: int = 1) -> int:
    """Write to standard output (or `fd`), at once; return 0. Raises OSError."""
    data = text.encode(errors="backslashreplace")
    while data:
        data = data[os.write(fd, data) :]
    return 0
