"""Runs tests on a machine of pure cgroup v2, in QEMU: `make test-v2`.

`make test-v2 PYTEST="tests/cgroups"` takes some tests, SUITE=bookworm another Debian. Prints a
table by folder of tests; `--write` puts it into tutorials/reference/cgroup-v2.md.
"""

import argparse
import shlex
import sys
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import machine

PAGE = machine.TOP / "tutorials" / "reference" / "cgroup-v2.md"
TESTS = (
    "tests/cgroups tests/core tests/oci tests/gpu tests/faces/teach tests/engines/clients "
    "tests/engines/rootless"
)
START, END = "<!-- table -->", "<!-- end of table -->"


@dataclass
class Row:
    """The results of one folder of tests."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: int = 0
    seconds: float = 0

    def add(self, case: ET.Element) -> None:
        """Count one test of JUnit's report."""
        self.seconds += float(case.get("time", "0"))
        if case.find("failure") is not None or case.find("error") is not None:
            self.failed.append(f"{case.get('classname')}::{case.get('name')}")
        elif case.find("skipped") is not None:
            self.skipped += 1
        else:
            self.passed += 1


def rows(report: bytes) -> dict[str, Row]:
    """Return folder of tests → results, from a JUnit report."""
    found: dict[str, Row] = defaultdict(Row)
    for case in ET.fromstring(report).iter("testcase"):
        parts = [part for part in case.get("classname", "").split(".") if "test_" not in part]
        found["/".join(parts[:3])].add(case)
    return dict(sorted(found.items()))


def table(found: dict[str, Row]) -> str:
    """Return the results as a table in Markdown; seconds are of processor-bound TCG."""
    lines = ["| tests | passed | failed | skipped | seconds |", "|---|--:|--:|--:|--:|"]
    for name, row in found.items():
        numbers = f"{row.passed} | {len(row.failed)} | {row.skipped} | {row.seconds:.0f}"
        lines.append(f"| {name} | {numbers} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", default="trixie", help="a release of Debian: %(default)s")
    parser.add_argument("--pytest", default="", metavar="WORDS", help="for pytest: tests, options")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    options = parser.parse_args()
    start = time.monotonic()
    words = shlex.split(options.pytest or f"-n 2 {TESTS}")
    report = machine.run(options.suite, words, machine.checkout())
    found = rows(report)
    text = f"{table(found)}\n\nDebian {options.suite}, {time.monotonic() - start:.0f} s."
    print(text)
    if options.write:
        head, _, tail = PAGE.read_text().partition(START)
        PAGE.write_text(f"{head}{START}\n{text}\n{END}{tail.partition(END)[2]}")
    failed = [name for row in found.values() for name in row.failed]
    print(*failed, sep="\n")
    return int(bool(failed) or not found)


if __name__ == "__main__":
    sys.exit(main())
