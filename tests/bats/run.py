"""Ask minirun what runc's own tests ask of runc: `make bats`. One row a test, one column a runtime.

Each file of tests runs in a mount and pid namespace of its own, on a terminal of its own, for at
most TIMEOUT seconds, with runc first and with minirun then. `words` is a test that passes with
minirun but for lines that only runc can pass: reasons.py names each, and they are printed. A test
that passes with runc and fails with minirun has its reason there too, or is UNEXPLAINED, which
makes the exit status 1. What neither passes is the machine's: no CRIU for its kernel, no network.
"""

import argparse
import contextlib
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import reasons
import suite

TIMEOUT = 300
"""Seconds for one file; the longest takes about a minute."""

RESULT = re.compile(r"(?P<word>not ok|ok) \d+ (?P<name>.*?)(?: # (?P<skip>skip).*| # .*)?")
"""A line of the Test Anything Protocol, as bats writes it."""

PRIVATELY = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
ON_A_TERMINAL = ("setsid", "--ctty", "--wait")
"""That on standard input, for what opens /dev/tty."""


class Result(NamedTuple):
    """What became of one test: ok, words, not ok, skip, or nothing; and what bats printed of it."""

    word: str
    printed: str = ""


WORDS = ("ok", "words", "not ok", "skip", "nothing")
NOTHING = Result("nothing")


class Runtime:
    """A program that is asked, and what it has done."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.name = os.path.basename(path)
        self.total = Counter[str]()
        self.seconds = 0.0

    def run(self, tests: Path, file: str) -> dict[str, Result]:
        """Run one file of tests; return the results, by the tests' names."""
        start = time.monotonic()
        log = suite.BUILD / "logs" / self.name / f"{file}.tap"
        log.parent.mkdir(parents=True, exist_ok=True)
        text = (tests / f"{file}.bats").read_text()
        own = self.name != "runc"
        asked = tests / f".{file}.{self.name}.bats"
        asked.write_text(reasons.change(file, text) if own else text)
        if not _bats(asked, self.path, log):
            print(f"{file}: {self.name} took more than {TIMEOUT} s", flush=True)
        results = parse(log.read_text(errors="replace"))
        for name in results if own else ():
            if results[name].word == "ok" and reasons.of_words(file, name):
                results[name] = Result("words")
        self.total.update(result.word for result in results.values())
        self.seconds += time.monotonic() - start
        return results


def main() -> int:
    """Run the files of tests and report; exit status 1 if a failure has no explanation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runtime", default="minirun", help="a name or a path (%(default)s)")
    parser.add_argument("files", nargs="*", help="only these, such as exec")
    options = parser.parse_args()
    paths = [shutil.which(name) for name in ("runc", options.runtime)]
    if not all(paths):
        print(f"no runc, or no {options.runtime}", file=sys.stderr)
        return 1
    runc, mine = (Runtime(path) for path in paths if path)
    tests = suite.build()
    files = options.files or sorted(p.stem for p in tests.glob("*.bats") if p.name[0] != ".")
    unexplained = sum(_show(file, runc.run(tests, file), mine.run(tests, file)) for file in files)
    print()
    for runtime in (runc, mine):
        counts = ", ".join(f"{runtime.total[word]} {word}" for word in WORDS)
        tests_run = runtime.total.total()
        print(f"{runtime.name:8} {tests_run} tests: {counts}; {runtime.seconds:.0f} s")
    print(f"{unexplained=}; what bats printed: {os.path.relpath(suite.BUILD / 'logs')}")
    return 1 if unexplained else 0


def _bats(tests: Path, runtime: str, log: Path) -> bool:
    """Run a file of tests with a runtime, bats' words into `log`; False if it took too long."""
    controller, terminal = pty.openpty()
    os.chown("/dev/null", 0, 0)  # runc gives the host's one to a user namespace, and a test looks
    with tempfile.TemporaryDirectory(prefix="bats-") as scratch, log.open("w") as output:
        os.chmod(scratch, 0o755)  # a container's user must be able to reach its root filesystem
        try:
            subprocess.run(
                [*PRIVATELY, *ON_A_TERMINAL, "bats", "--tap", tests.name],
                cwd=tests.parent,
                env=os.environ | {"TMPDIR": scratch, "RUNC": runtime},
                stdin=terminal,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        finally:
            os.close(controller)
            os.close(terminal)
            os.chown("/dev/null", 0, 0)
            _clear_cgroups()
    return True


def _clear_cgroups() -> None:
    """Remove the parent of the cgroups that the tests name; they leave it."""
    for parent in Path("/sys/fs/cgroup").glob("**/runc-cgroups-integration-test"):
        for directory, _, _ in os.walk(parent, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)


def parse(output: str) -> dict[str, Result]:
    """Return each test's result, by its name, from what bats printed."""
    results: dict[str, Result] = {}
    name = ""
    for line in output.splitlines():
        if match := RESULT.fullmatch(line):
            name = match["name"]
            results[name] = Result(match["skip"] or match["word"])
        elif name:
            results[name] = Result(results[name].word, f"{results[name].printed}{line}\n")
    return results


def _show(file: str, beside: dict[str, Result], mine: dict[str, Result]) -> int:
    """Print a row for each test of a file; return how many failures have no reason."""
    unexplained = 0
    for name in beside | mine:
        other, own = beside.get(name, NOTHING), mine.get(name, NOTHING)
        print(f"{other.word:7} {own.word:7} {file}: {name}")
        if own.word == "words":
            rows = reasons.of_words(file, name)
            for why in dict.fromkeys(row.why for row in rows):
                _say("   ".join(row.words for row in rows if row.why == why))
                _say(f"  {why}")
        elif other.word == "ok" != own.word:
            reason = reasons.of_failure(file, name, own.printed)
            unexplained += not reason
            _say(reason or "UNEXPLAINED")
    sys.stdout.flush()
    return unexplained


def _say(text: str) -> None:
    indent = " " * (16 + len(text) - len(text.lstrip()))
    print(textwrap.fill(text.lstrip(), 100, initial_indent=indent, subsequent_indent=indent))


if __name__ == "__main__":
    sys.exit(main())
