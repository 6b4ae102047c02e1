"""What of a learner's own programs holds: ROOT/.levels has the last check of each level.

{"03_handshake": {"held": 24, "asked": 25, "program": "/home/mine/03_handshake.py"}}
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from minirun.core.keeping import state

_NAME = ".levels"


class LastCheck(NamedTuple):
    """The last check of a level."""

    held: int
    """How many of its checks held, and how many there are."""
    asked: int
    program: str
    """The program, as a command line."""


def remember(root: str, level: str, last: LastCheck) -> None:
    """Write down the last check of a level. Raises OSError."""
    path = Path(root, _NAME)
    os.makedirs(root, mode=0o711, exist_ok=True)
    text = json.dumps({**_rows(path), level: last._asdict()}, indent=1)
    state.replace(str(path), f"{text}\n", f"{path}.{os.getpid()}")


def look(root: str) -> dict[str, LastCheck]:
    """Return the last checks by the names of their levels; none where they cannot be read."""
    found = {}
    for name, row in _rows(Path(root, _NAME)).items():
        with suppress(TypeError):  # a row of another minirun's
            found[name] = LastCheck(**row)
    return found


def _rows(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        rows = json.loads(path.read_text())
        if isinstance(rows, dict):
            return rows
    return {}
