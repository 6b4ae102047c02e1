"""Ask a runtime what OCI's validation programs ask: `make conformance`, or with RUNTIME=runc.

Each program runs in a mount and pid namespace of its own with an empty /run, for at most TIMEOUT
seconds. What it prints is the Test Anything Protocol: `ok`, `not ok`, `ok # SKIP`. Every `not ok`
is shown with its reason out of reasons.py, or as UNEXPLAINED, and so is a program that ends with an
error of its own and no `not ok`, or that prints an "error" and no result. A program that takes too
long is tried once more: on a busy machine it may. The last line is `total: ok=N notok=N skip=N`.
"""

import argparse
import glob
import os
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

Complaint = tuple[str, str, str]
"""Kind (`not ok`, or for a program `failed` or `error`), what is wrong, the reason or nothing."""

TIMEOUT = 60
"""Seconds; the longest takes about fourteen."""
TIMED_OUT = (124, 137)
"""What timeout(1) exits with where it had to end a program, and where to kill it."""

IN_NAMESPACES = """
mount -t tmpfs tmpfs /run || exit 125
case $2:$(cat /proc/self/mountinfo) in
*/crun:*" - cgroup "*) umount --all --types cgroup2 ;;
esac
timeout --kill-after=2 "$1" "$3"
status=$?
for id in $("$2" list -q 2>/dev/null); do
    "$2" delete --force "$id"
done
exit "$status"
"""
"""$1 seconds, $2 the runtime, $3 the program. The shell is process 1 and reaps all orphans.

crun refuses a cgroup2 beside version 1's hierarchies, so it does not see it.
"""

RESULT = re.compile(r"(?P<word>not ok|ok) \d+(?: (?P<skip># SKIP)| -)? ?(?P<text>.*)")
ERROR = re.compile(r'^ +"error": "(.*?)(?:\\n.*)?",?$', re.MULTILINE)
"""The first line of what a program prints where it has no result; it exits with 0 then."""
TEST_CGROUPS = ("/sys/fs/cgroup/*/cgrouptest", "/sys/fs/cgroup/*/testdir")


class Outcome(NamedTuple):
    """What one program said."""

    program: str
    ok: int
    notok: int
    skipped: int
    timeout: bool
    complaints: list[Complaint]
    seconds: float


def main() -> int:
    """Run the programs and report; exit status 1 where a failure has no explanation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = "a name or a path (default: %(default)s); reasons are told of minirun alone"
    parser.add_argument("--runtime", default="minirun", help=what)
    parser.add_argument("programs", nargs="*", help="only these")
    options = parser.parse_args()
    runtime = shutil.which(options.runtime)
    if not runtime:
        print(f"{options.runtime}: no such runtime", file=sys.stderr)
        return 1
    runtime = os.path.abspath(runtime)
    directory = suite.build()
    logs = suite.BUILD / "logs" / os.path.basename(runtime)
    logs.mkdir(parents=True, exist_ok=True)
    names = options.programs or suite.programs(directory)
    width = max(map(len, names))
    outcomes = []
    for name in names:
        outcomes.append(_run_fairly(directory, name, runtime, logs / f"{name}.txt"))
        _show(outcomes[-1], width)
    print(f"\nwhat each program printed: {os.path.relpath(logs)}")
    unexplained = _total(outcomes)
    return 1 if unexplained and os.path.basename(runtime) == "minirun" else 0


def _total(outcomes: list[Outcome]) -> int:
    """Print the sums; return how many complaints have no reason."""
    complaints = [complaint for outcome in outcomes for complaint in outcome.complaints]
    unexplained = sum(not reason for _, _, reason in complaints)
    failed = sum(kind != "not ok" for kind, _, _ in complaints)
    timeouts = sum(outcome.timeout for outcome in outcomes)
    ok, notok = sum(o.ok for o in outcomes), sum(o.notok for o in outcomes)
    skip = sum(o.skipped for o in outcomes)
    print(f"programs={len(outcomes)} {failed=} {timeouts=} {unexplained=}")
    print(f"total: {ok=} {notok=} {skip=}")
    return unexplained


def _run_fairly(directory: Path, name: str, runtime: str, log: Path) -> Outcome:
    """Run one program; again, and say so, where it fails for no known reason but may by itself."""
    outcome = _run(directory, name, runtime, log)
    for nth in ("second", "third"):
        unexplained = not all(reason for _, _, reason in outcome.complaints)
        why = "it took too long" if outcome.timeout else reasons.RACES.get(name, "")
        if why and unexplained:
            print(f"{name}: a {nth} try: {why}", flush=True)
            outcome = _run(directory, name, runtime, log)
    return outcome


def _run(directory: Path, name: str, runtime: str, log: Path) -> Outcome:
    """Run one program; keep what it printed in `log`."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="conformance-") as scratch:
        os.chmod(scratch, 0o755)  # a container's user must be able to reach its root filesystem
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        words += ["sh", "-c", IN_NAMESPACES, "sh", str(TIMEOUT), runtime]
        done = subprocess.run(
            [*words, f"{directory}/validation/{name}"],
            cwd=directory,
            env=os.environ | {"TMPDIR": scratch, "RUNTIME": runtime},
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
    _clear_cgroups()
    seconds = time.monotonic() - start
    output, errors = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    printed = f"{output}\n--- standard error\n{errors}\n--- exit status {done.returncode}\n"
    log.write_text(printed)
    ok, failures, skipped = parse(output)
    wrong = [("not ok", text) for text in failures]
    timeout = done.returncode in TIMED_OUT
    if timeout:
        wrong.append(("failed", f"TIMEOUT after {TIMEOUT} s"))
    elif done.returncode and not failures:
        said = "; ".join(errors.strip().splitlines())
        wrong.append(("failed", said or f"exit status {done.returncode}"))
    elif not ok + len(failures) + skipped:
        wrong += [("error", text) for text in ERROR.findall(output)]
    told = [(kind, text, reasons.why(name, text, printed)) for kind, text in wrong]
    return Outcome(name, ok, len(failures), skipped, timeout, told, seconds)


def parse(output: str) -> tuple[int, list[str], int]:
    """Count what a program printed: how many ok, the texts of what is not ok, how many skipped."""
    results = [match for line in output.splitlines() if (match := RESULT.match(line))]
    skipped = sum(bool(result["skip"]) for result in results)
    failures = [result["text"].strip() for result in results if result["word"] == "not ok"]
    return len(results) - skipped - len(failures), failures, skipped


def _clear_cgroups() -> None:
    """Remove the cgroups that the programs name; a runtime removes its own, not their parents."""
    for path in [path for pattern in TEST_CGROUPS for path in glob.glob(pattern)]:
        for directory, _, _ in os.walk(path, topdown=False):
            os.rmdir(directory)


def _show(outcome: Outcome, width: int) -> None:
    counts = f"{outcome.ok:5} ok {outcome.notok:3} not ok {outcome.skipped:4} skipped"
    print(f"{outcome.program:{width}} {counts} {outcome.seconds:6.1f} s")
    for (kind, text, reason), times in Counter(outcome.complaints).items():
        print(f"    {kind}: {text}" + (f" ({times} times)" if times > 1 else ""))
        print(
            textwrap.fill(
                reason or "UNEXPLAINED", 96, initial_indent=" " * 8, subsequent_indent=" " * 8
            ),
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
