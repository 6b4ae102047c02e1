"""`minirun logs`: what a container has written, which minirun keeps (minirun.running.output_files).

Each line has the time at which minirun has read it from the container's stream.
"""

from __future__ import annotations

import time

from minirun.cli.flags import Flags, flag
from minirun.common import docker_record
from minirun.core.errors import StateError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.docker.output_reader import OutputReader, Span
from minirun.engines import roots

with lazy:
    from minirun.running import moments  # re: 5 ms


class Logs(Flags):
    """Print what a container has written."""

    command = "logs"
    details: bool
    follow: bool = flag("-f")
    since: str
    tail: str = flag("-n")
    timestamps: bool = flag("-t")
    until: str


def main_logs(args: list[str], settings: Settings) -> int:
    """Print a container's output: its stdout on ours, its stderr on ours."""
    flags = Logs(args)
    flags.takes(1)
    tail = None if flags.tail in ("", "all", "-1") else whole(flags.tail)
    if tail is None and flags.tail not in ("", "all", "-1"):
        raise UsageError(f"invalid --tail {flags.tail!r}", "a number of lines, or all", 1)
    begin = moments.point(flags.since, "--since") if flags.since else 0.0
    end = moments.point(flags.until, "--until") if flags.until else float("inf")
    place, container_id = roots.locate(settings, flags.args[0], only_made_up=True)
    record = state.load(place.root, container_id)
    docker = docker_record.of(record)
    if docker.managed and not docker.output:
        text = "configured logging driver does not support reading"
        raise StateError(text, "the container was made with --log-driver none", 1)
    reader = OutputReader(record.directory, flags.timestamps, Span(begin, end), flags.details)
    reader.show(tail)
    while flags.follow:
        ended = _has_ended(place.root, container_id) or time.time() > end
        reader.show()
        if ended:
            break
        time.sleep(0.05)
    return 0


def _has_ended(root: str, container_id: str) -> bool:
    """Return True if a container writes no more, and its supervisor has kept all that it wrote."""
    try:
        record = state.load(root, container_id)
    except StateError:  # it has been deleted: --rm
        return True
    kept = record.exit_status is not None or not state.is_alive(record.supervisor)
    return record.status == state.STOPPED and kept
