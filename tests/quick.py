"""The tests that fit a change: `make quick`.

The core's, always, since each change may break a start; the walls between the rooms and the papers;
and for each file that differs from a commit:
  a test            itself
  a file            tests/ROOM/test_FILE*.py, and the tests that its row of ARCHITECTURE.md names;
                    if there are none, all tests of the nearest folder
  a lesson, a page  tests/tutorials, tests/publish/test_quotes.py
After SECONDS no test is begun any more, and that is a failure: then `make test` is for it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).parents[1]
ALWAYS = ("tests/test_rings.py", "tests/test_papers.py", "tests/core")
PAGES = ("tests/tutorials", "tests/publish/test_quotes.py")
SECONDS = 180
SOURCES = ("minirun/", "rootfs-tools/")


def changed(since: str) -> list[str]:
    """The files that differ from a commit, and those that git does not know yet."""
    argv = ["git", "diff", "--name-only", "--merge-base", since]
    differ = subprocess.run(argv, cwd=TOP, capture_output=True, text=True, check=True).stdout
    argv = ["git", "ls-files", "--others", "--exclude-standard"]
    new = subprocess.run(argv, cwd=TOP, capture_output=True, text=True, check=True).stdout
    return [*differ.split(), *new.split()]


def rows_of(name: str) -> Iterator[str]:
    """Yield the tests in the rows of ARCHITECTURE.md that name a file, as it is written there."""
    for row in (TOP / "ARCHITECTURE.md").read_text().splitlines():
        if row.startswith("| ") and f"`{name}`" in row:
            yield from re.findall(r"`(tests/[\w/.]+)`", row)


def tests_of(path: str) -> set[str]:
    """The tests of one changed file."""
    if path.startswith("tests/"):
        file = Path(path)
        return {path} if file.name.startswith("test_") and (TOP / path).exists() else set()
    if path.startswith(("tutorials/", "notebooks/")) and not path.endswith(".py"):
        return set(PAGES)
    if not path.startswith(SOURCES):
        return set()
    place = Path("tests", path.removeprefix("minirun/").removeprefix("rootfs-tools/"))
    rows = {*rows_of(path), *rows_of(path.removeprefix("minirun/"))}
    own = (TOP / place.parent).glob(f"test_{place.stem.strip('_')}*.py")
    found = rows | {str(each.relative_to(TOP)) for each in own}
    folder = next(each for each in place.parents if (TOP / each).is_dir())
    return found or {str(folder)}


def chosen(paths: list[str]) -> list[str]:
    """The tests of these files, and then those of every change."""
    mine = {test for path in paths for test in tests_of(path)} - {"tests"}
    return [*sorted(each for each in mine if not each.startswith(ALWAYS)), *ALWAYS]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--since", default="main", help="a commit (default: main)")
    parser.add_argument("pytest", nargs="*", help="for pytest")
    options = parser.parse_args()
    found = chosen(changed(options.since))
    print(*found, sep="\n", flush=True)
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "3", "--dist", "worksteal"]
    argv += [f"--session-timeout={SECONDS}", *options.pytest, *found]
    return subprocess.run(argv, cwd=TOP).returncode


if __name__ == "__main__":
    sys.exit(main())
