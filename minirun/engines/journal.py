"""What the system's journal says of containers that did not start: `explain --journal`.

Engines hand a runtime's error on, as text, and their service's output goes to the journal.
journalctl(1): with -o json each entry is one line, its MESSAGE a string, or a list of bytes if it
is not printable; __REALTIME_TIMESTAMP is in microseconds since 1970.
"""

import json
import shutil
import subprocess
from typing import NamedTuple

from minirun.core.keeping.visible import clean

_PROGRAMS = (
    "dockerd",
    "containerd",
    "podman",
    "conmon",
    "kubelet",
    "crio",
    "minirun",
    "runc",
    "crun",
)
_MARKS = ("oci runtime", "minirun:", "nvidia-container", "running hook", "runc", "container init")
_FAILURES = ("error", "failed", "fail to", "cannot")
_MOST_ENTRIES = "2000"
_SECONDS = 20


class JournalEntry(NamedTuple):
    """An entry of the journal that speaks of a start that failed."""

    when: float
    """Seconds since 1970."""
    program: str
    text: str


def last_failure() -> JournalEntry | None:
    """Return the newest such entry of the engines and runtimes; None if there is none, or no
    journal."""
    program = shutil.which("journalctl", path="/usr/bin:/bin")
    if not program:
        return None
    words = [f"SYSLOG_IDENTIFIER={name}" for name in _PROGRAMS]
    argv = [program, "--no-pager", "-q", "-o", "json", "-r", "-n", _MOST_ENTRIES, *words]
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False,
            env=env,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = map(_entry, done.stdout.splitlines())  # the newest first
    return next((entry for entry in found if entry and _is_failure(entry.text)), None)


def _entry(line: bytes) -> JournalEntry | None:
    try:
        fields = json.loads(line)
        said = fields["MESSAGE"]
        text = said if isinstance(said, str) else bytes(said).decode(errors="replace")
        when = int(fields["__REALTIME_TIMESTAMP"]) / 1e6
        return JournalEntry(when, clean(str(fields["SYSLOG_IDENTIFIER"])), clean(text))
    except (ValueError, KeyError, TypeError):
        return None


def _is_failure(text: str) -> bool:
    low = text.lower()
    return any(mark in low for mark in _MARKS) and any(word in low for word in _FAILURES)
