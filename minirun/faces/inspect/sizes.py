"""How many bytes a container has written, and its image has: `ps --size`, `inspect --size`."""

from __future__ import annotations

import os
import stat

from minirun.core.keeping import places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from minirun.core.keeping.container_record import ContainerRecord


def sizes(record: ContainerRecord) -> tuple[int, int]:
    """Return the bytes of what it has written itself, and of all its files with the image's.

    As docker counts: the lengths of files, a file with two names once, directories not at all.
    Directories are entered by descriptors, so no link of the container leads out.
    """
    own = _bytes(f"{record.directory}/{places.UPPER}")
    layers: Iterable[str] = record.choices.layers
    return own, own + sum(map(_bytes, layers))


def _bytes(folder: str) -> int:
    seen: set[tuple[int, int]] = set()
    total = 0
    for _, _, names, fd in os.fwalk(folder, onerror=lambda _: None):
        for name in names:
            try:
                info = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(info.st_mode) and (info.st_dev, info.st_ino) not in seen:
                seen.add((info.st_dev, info.st_ino))
                total += info.st_size
    return total


def human(size: float) -> str:
    """Return a size as docker prints it: four digits, decimal units, 1.99MB."""
    return _scaled(size, 1000, ("B", "kB", "MB", "GB", "TB", "PB"))


def human_binary(size: float) -> str:
    """Return a size as docker prints memory: four digits, 1024s, 23.54GiB."""
    return _scaled(size, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def _scaled(size: float, base: int, units: tuple[str, ...]) -> str:
    number, place = size, 0
    while number >= base and place < len(units) - 1:
        number, place = number / base, place + 1
    digits = 3 if base == 1000 else 4
    return f"{number:.{digits}g}{units[place]}" if number < 1000 else f"{number:.0f}{units[place]}"
