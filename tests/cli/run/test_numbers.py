"""Numbers of the command line: what is saved can be read again, and none ends in a traceback."""

from __future__ import annotations

import json

import pytest

from conftest import Program

MANY = "9" * 5000
"""More digits than Python's int() takes."""
SHORT = ("busybox", "true")
WRONG = [
    ("run", "--stop-timeout", "99999999999999999999", *SHORT),
    ("run", "--stop-timeout", MANY, *SHORT), ("run", "--stop-timeout", "²", *SHORT),
    ("create", "--stop-timeout", MANY, *SHORT),
    ("run", "--health-cmd", "true", "--health-interval", f"{MANY[:400]}s", *SHORT),
    ("run", "--health-cmd", "true", "--health-timeout", "9999999h", *SHORT),
    ("run", "--health-cmd", "true", "--health-retries", MANY, *SHORT),
    ("run", "--log-opt", "max-size=99999999999999999999g", *SHORT),
    ("run", "--log-opt", f"max-file=00001{MANY}", *SHORT),
    ("run", "--log-opt", "max-file=00001999999999999999999999", *SHORT),
    ("run", "--restart", f"on-failure:{MANY}", *SHORT),
    ("run", "--memory", "99999999999999999999", *SHORT),
    ("run", "--ulimit", f"core={MANY}", *SHORT),
    ("run", "--device-cgroup-rule", f"c {MANY}:* rwm", *SHORT),
    ("run", "--expose", f"000080{MANY}", *SHORT),
    ("run", "--network", "bridge", "-p", f"000080{MANY}:80", *SHORT),
    ("run", "--web", f"000080{MANY}", *SHORT), ("run", "--preserve-fds", MANY, "-b", ".", "x"),
    ("run", "--uidmap", f"0:{MANY}:1", *SHORT), ("run", "--gpu-mps", f"{MANY}g", *SHORT),
    ("timeline", "-n", MANY), ("timeline", "-n", "²"), ("diff", "--stage", MANY, "c"),
    ("ps", "-n", MANY), ("ps", "-f", f"publish=000080{MANY}"), ("logs", "--tail", MANY, "c"),
    ("network", "create", "--opt", f"mtu={MANY}", "n"), ("update", "--pids-limit", MANY, "c"),
    ("network", "why", "c", f"192.0.2.1:000080{MANY}"),
    ("stop", "-t", MANY, "c"), ("stats", "--interval", f"{MANY}s", "c"), ("kill", "c", MANY),
    ("exec", "-u", MANY, "c", "true"), ("exec", "--preserve-fds", MANY, "c", "true"),
]  # fmt: skip


@pytest.mark.parametrize("words", WRONG, ids=lambda words: f"{' '.join(words):.45}")
def test_one_line_and_nothing_is_left(minirun: Program, words: tuple[str, ...]) -> None:
    done = minirun(*words)
    assert done.returncode not in (0, 127), done.stdout
    assert "Traceback" not in done.stderr, done.stderr[-400:]
    assert done.stderr.startswith("minirun: ") and done.stderr.count("\n") == 1
    assert minirun.left() == []


LARGEST = [
    ("--stop-timeout", "9223372036854775807"), ("--stop-timeout", "-1"),
    ("--health-cmd", "true", "--health-interval", "2562047h"),
    ("--health-cmd", "true", "--health-start-period", "2562047h", "--health-interval", "9000h"),
    ("--log-opt", "max-size=9223372036854775807", "--log-opt", "max-file=1000"),
    ("--restart", "on-failure:9223372036854775807"), ("--ulimit", "core=18446744073709551615"),
    ("--memory-reservation", "9223372036854775807"),
]  # fmt: skip


@pytest.mark.parametrize("flags", LARGEST, ids=lambda flags: " ".join(flags))
def test_what_is_taken_is_read_again(minirun: Program, flags: tuple[str, ...]) -> None:
    """By `ps`, `stop` and `rm`, which once said: state.json is damaged."""
    done = minirun("run", "-d", "--name", "c", *flags, "busybox", "sleep", "99")
    assert done.returncode == 0, done.stderr
    [row] = map(json.loads, minirun("ps", "--format", "json").stdout.splitlines())
    assert row["State"] == "running", row
    for words in (("kill", "c", "KILL"), ("wait", "c"), ("stop", "c"), ("rm", "c")):
        done = minirun(*words)
        assert (done.returncode, done.stderr) == (0, ""), words
    assert minirun.left() == []


@pytest.mark.parametrize("flag", ["--label=a=", "--annotation=a=", "--hostname=", "--env=A="])
def test_a_text_that_no_record_can_hold(minirun: Program, flag: str) -> None:
    """A byte that is no UTF-8: JSON has no place for it."""
    done = minirun("run", "-d", "--name", "c", f"{flag}\udcff", "busybox", "sleep", "99")
    assert done.returncode == 125 and done.stderr.count("\n") == 1
    assert "not UTF-8" in done.stderr and minirun.left() == []
