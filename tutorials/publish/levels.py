"""The programs of the ladder, tutorials/levels/NN_*.py, written from one text: ladder.txt there.

    python -m tutorials.publish.levels

They stay in the tree, since learners read and run them; ladder.txt is what one edits.
"""

import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "levels"
SOURCE = FOLDER / "ladder.txt"
_RANGE = re.compile(r"@ (\d)(?:(-)(\d?))?")


def program(source: str, level: int) -> str:
    """Return the program of one level. Raises ValueError for a line "@ …" that says no levels."""
    lines: list[str] = []
    stands = False
    for line in source.splitlines(keepends=True):
        if not line.startswith("@ "):
            lines += [line] if stands else []
            continue
        found = _RANGE.fullmatch(line.rstrip("\n"))
        if not found:
            raise ValueError(f"{line!r}: say @ 3, @ 2-8 or @ 5-")
        first, dash, last = found.groups()
        stands = int(first) <= level <= int(last or (9 if dash else first))
    return "".join(lines)


def programs() -> dict[Path, str]:
    """Return what each level's file has to hold."""
    source = SOURCE.read_text()
    return {path: program(source, int(path.name[:2])) for path in sorted(FOLDER.glob("0*_*.py"))}


def main() -> int:
    """Write the programs; name those that were not as they are now."""
    for path, text in programs().items():
        if path.read_text() != text:
            path.write_text(text)
            print(path.name, file=sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
