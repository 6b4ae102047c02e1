"""What NVIDIA's own programs said and did on the recorded hosts: the files of tests/gpu/data.

Many cases are alike. Such a one is kept as a difference, NAME.diff: a unified diff without context,
from the whole case beside it that the first line names. GNU's tools write and read it too:

    diff -U0 BASE NAME >NAME.diff
    patch -o - BASE NAME.diff

For this a row of a table (a mount, a node, a file) stands on one line.
"""

import json
import re
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def recorded_names(folder: str, suffix: str) -> list[str]:
    """Return the names of the cases in a folder of DATA, without their suffix (".json")."""
    files = {path.name.removesuffix(".diff") for path in (DATA / folder).iterdir()}
    return sorted(name.removesuffix(suffix) for name in files if name.endswith(suffix))


def recorded_text(path: str) -> str:
    """Return the text of a file below DATA, kept whole or as a difference.

    Raises OSError if there is neither; AssertionError if the difference is not one from its base.
    """
    if (DATA / path).exists():
        return (DATA / path).read_text()
    first, _, *changes = (DATA / f"{path}.diff").read_text().splitlines(keepends=True)
    base = (DATA / path).with_name(first.split()[1]).read_text().splitlines(keepends=True)
    found: list[str] = []
    done = 0
    for line in changes:
        if match := re.match(r"@@ -(\d+)(,0)?", line):  # "-5" begins at line 5, "-5,0" after it
            begin = int(match[1]) if match[2] else int(match[1]) - 1
            found += base[done:begin]
            done = begin
        elif line.startswith("-"):
            assert line[1:] == base[done], f"{path}.diff: line {done + 1} of its base has changed"
            done += 1
        else:
            found.append(line.removeprefix("+"))
    return "".join(found + base[done:])


def golden(case: str) -> dict[str, Any]:
    """A case of the real nvidia-container-cli."""
    return json.loads(recorded_text(f"cli/{case}.json"))
