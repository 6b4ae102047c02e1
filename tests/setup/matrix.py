"""Runs the demo and the tests on bare Debians, one after the other: `make matrix`.

The column podman is a container of podman's under a booted systemd: booted.py.

Each is made anew by machines/bare.py from this machine's sources, and removed afterwards, also
where a signal ends this. One table comes at the end, and below it the tests that failed. Each
Debian's own runc runs below the engines, beside minirun, and no answer that is kept counts.
`make matrix SUITES="trixie sid" PYTEST="tests/gpu tests/cli"` takes some Debians and some tests;
SUITES="bookworm:i386" one of 32 bits, on a kernel of x86_64.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import booted

from machines.bare import CLONE, Bare, Row, folder

SUITES = ("bookworm", "trixie", "sid")
REPORT = "report.xml"
HEAD = (
    "suite     python    demo  packages      MB  seconds  podman"
    "    test  passed  failed  skipped  seconds"
)  # fmt: skip


class Tests(NamedTuple):
    """What JUnit's XML, as pytest writes it, says of one run."""

    passed: int
    failed: list[str]
    skipped: int

    @classmethod
    def read(cls, path: Path) -> Tests:
        """Read a report; without one nothing passed."""
        if not path.exists():
            return cls(0, [], 0)
        cases = list(ET.parse(path).getroot().iter("testcase"))
        bad = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
        skipped = sum(case.find("skipped") is not None for case in cases)
        failed = [f"{case.get('classname')}::{case.get('name')}" for case in bad]
        return cls(len(cases) - len(bad) - skipped, failed, skipped)


class Line(NamedTuple):
    """One line of the table."""

    suite: str
    python: str
    demo: Row
    podman: str
    run: Row
    tests: Tests

    def __str__(self) -> str:
        demo, run = self.demo, self.run
        left = f"{self.suite:9} {self.python:8} {_word(demo):>5} {demo.packages:9}"
        middle = f"{demo.installed + demo.venv:8.0f} {demo.seconds:8.0f}"
        middle += f"  {self.podman:6} {_word(run):>7}"
        counts = f"{self.tests.passed:7} {len(self.tests.failed):7} {self.tests.skipped:8}"
        return f"{left}{middle} {counts} {run.seconds:8.0f}"


def _word(row: Row) -> str:
    return "FAILED" if row.status else "ok"


def run(place: Path, suite: str, lent: list[str], pytest: str) -> Line:
    """Make a bare Debian, run demo and tests in it, and remove it."""
    bare = Bare(place / suite, suite, lent)
    demo = bare.make("demo")
    tests = bare.make("test", f"PYTEST=--junitxml={REPORT} --peers=run {pytest}")
    found = Tests.read(place / suite / CLONE / REPORT)
    argv = ["chroot", place / suite, "python3", "--version"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    subprocess.run(["rm", "-rf", "--one-file-system", place / suite], check=True)
    podman = booted.said(place, suite, lent)
    return Line(suite, done.stdout.removeprefix("Python ").strip(), demo, podman, tests, found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", default=SUITES, metavar="SUITE",
                        help=f"default: {' '.join(SUITES)}")  # fmt: skip
    parser.add_argument("--pytest", default="", metavar="WORDS", help="for pytest: tests, options")
    parser.add_argument("--lend", action="append", default=[], metavar="DIR",
                        help="a folder of this machine that pip reads")  # fmt: skip
    options = parser.parse_args()
    lines: list[Line] = []
    with folder() as place:
        for suite in options.suites:
            lines.append(run(place, suite, options.lend, shlex.join(shlex.split(options.pytest))))
            print(f"{HEAD}\n{lines[-1]}", flush=True)
    print("\n", HEAD, *lines, sep="\n")
    for line in lines:
        for name in line.tests.failed:
            print(f"{line.suite}: {name}")
    bad = (line.demo.status or line.run.status or line.podman != booted.HELLO for line in lines)
    return int(any(bad))


if __name__ == "__main__":
    sys.exit(main())
