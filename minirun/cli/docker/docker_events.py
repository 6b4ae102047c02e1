"""docker's `events`: create, start, die, destroy of containers, from the logs that minirun keeps.

There is no daemon that writes them down. A container's record says when it was made and has ended,
its log when its command began, and the name of a kept log (minirun.running.kept_logs) when the
container was deleted. What --rm has removed at its end has no exit status any more.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from minirun.cli.docker import filters
from minirun.cli.docker.ps import labels
from minirun.cli.output import show, write
from minirun.core.errors import StateError
from minirun.core.keeping import places, state
from minirun.core.keeping.record import Record
from minirun.engines import roots
from minirun.running import kept_logs, listing, moments, renamed
from minirun.show.log import recording
from minirun.show.text import formats
from minirun.show.text.template import Fields, json_of

if TYPE_CHECKING:
    from minirun.core.keeping.container_record import ContainerRecord
    from minirun.core.keeping.settings import Settings

_TICK = 0.1
KNOWN = ("container", "event", "image", "label", "type")


class Happened(Record):
    """One event of docker's."""

    at: float
    action: str
    id: str
    attributes: dict[str, str]
    log: int
    """The inode of the container's log: it stays the same when the container is deleted."""


class _Watcher:
    """Reads what has happened to the containers of all state roots, again and again."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.starts: dict[int, tuple[float, float]] = {}
        """Inode of a log → when the container was made, and when its command began (monotonic)."""
        self.last_seen: dict[int, dict[str, str]] = {}
        """Inode → attributes: a kept log has no labels."""

    def read(self) -> list[Happened]:
        """Return all that is known, the oldest first."""
        found: list[Happened] = []
        for root in roots.known(self.settings):
            for record in listing.records(root):
                found += self._of_record(record)
            found += self._of_history(root)
        died = {one.log for one in found if one.action == "die"}
        more = [one for one in found if one.action == "destroy" and one.log not in died]
        found += [one._replace(action="die") for one in more]
        order = {"create": 0, "start": 1, "die": 2, "destroy": 3}
        return sorted(found, key=lambda one: (one.at, order[one.action]))

    def _of_record(self, record: ContainerRecord) -> list[Happened]:
        if record.status in ("damaged", state.CREATING):
            return []  # what is being made may have no log yet
        path = f"{record.directory}/{places.EVENTS}"
        try:
            log = os.stat(path).st_ino
        except OSError:
            log = hash((record.directory, record.created))
        attributes = dict(sorted(labels(record).items()))
        attributes |= {
            "image": record.image or "",
            "name": renamed.name_of(record.directory),
        }
        self.last_seen[log] = attributes
        made = moments.moment(record.created)
        found = [Happened(made, "create", record.id, attributes, log)]
        first, begun = self._times(log, path)
        if begun or (record.pid and record.status != state.CREATED):
            at = made + (begun - first if begun else 0.0)
            found.append(Happened(at, "start", record.id, attributes, log))
        if record.finished:
            ended = attributes | {"exitCode": str(record.exit_status)}
            found.append(Happened(moments.moment(record.finished), "die", record.id, ended, log))
        return found

    def _times(self, log: int, path: str) -> tuple[float, float]:
        """Return the monotonic seconds of a log's first event, and of the command's start, or 0."""
        if log not in self.starts:
            try:
                events = recording.read(path)[0].events
            except (OSError, StateError, LookupError):
                return 0.0, 0.0
            execs = [e.t for e in events if (e.kind, e.name, e.stage) == ("exec", "execve", 7)]
            if not execs:
                return 0.0, 0.0
            self.starts[log] = (events[0].t / 1e9, execs[-1] / 1e9)
        return self.starts[log]

    def _of_history(self, root: str) -> list[Happened]:
        """Return the events of containers that are gone: STAMP.NUMBER.ID.jsonl says when."""
        try:
            fd = kept_logs.open_folder(root)
        except OSError:
            return []
        try:
            names = kept_logs.names(fd)
        finally:
            os.close(fd)
        found: list[Happened] = []
        for name in names:
            path = f"{root}/{places.HISTORY}/{name}"
            stamp, number, rest = name.split(".", 2)
            try:
                log = os.stat(path).st_ino
                end = time.strptime(stamp, "%Y%m%dT%H%M%S")
            except (OSError, ValueError):
                continue
            gone = moments.moment(time.strftime("%Y-%m-%dT%H:%M:%S", end)) + 0.999
            container_id = rest.removesuffix(".jsonl")
            usual = {"image": "", "name": container_id}
            attributes = self.last_seen.get(log, usual)
            first, begun = self._times(log, path)
            later = gone - int(number) / 1e9
            for at, action in ((first, "create"), (begun, "start")):
                if at:
                    found.append(Happened(at + later, action, container_id, attributes, log))
            found.append(Happened(gone, "destroy", container_id, attributes, log))
        return found


def follow(settings: Settings, words: list[str], form: str, since: str, until: str) -> int:
    """Print docker's events: those of --filter's `words`, by --format, from --since to --until.

    Raises MinirunError, OSError.
    """
    wanted = filters.parse(words, KNOWN)
    begin = moments.point(since, "--since") if since else time.time()
    end = moments.point(until, "--until") if until else float("inf")
    template = formats.read(form)[0] if form and not _is_json(form) else None
    watcher = _Watcher(settings)
    printed: set[tuple[int, str, str]] = set()
    if not since:
        printed = {(one.log, one.id, one.action) for one in watcher.read()}
    while True:
        last_look = time.time() >= end
        for one in watcher.read():
            key = (one.log, one.id, one.action)
            if key in printed or not begin - (0 if since else 2) <= one.at <= end:
                continue
            printed.add(key)
            if not _fits(one, wanted):
                continue
            if template:
                write(template.render(_fields(one)) + "\n")
            elif form:
                write(json_of(_as_json(one)) + "\n")
            else:
                show([_line(one)])
        if last_look:
            return 0
        time.sleep(min(_TICK, max(0.0, end - time.time())))


def _is_json(form: str) -> bool:
    return form.replace(" ", "") in ("json", "{{json.}}")


def _fits(one: Happened, wanted: dict[str, list[str]]) -> bool:
    own = {
        "type": {"container"}, "event": {one.action},
        "container": {one.id, one.attributes["name"]},
        "image": {one.attributes["image"], one.attributes["image"].partition(":")[0]},
    }  # fmt: skip
    if not filters.has_labels(one.attributes, wanted.get("label", ())):
        return False
    return all(own[name] & {*values} for name, values in wanted.items() if name != "label")


def _line(one: Happened) -> str:
    more = ", ".join(f"{key}={value}" for key, value in sorted(one.attributes.items()))
    return f"{state.timestamp(one.at)} container {one.action} {one.id} ({more})"


def _fields(one: Happened) -> Fields:
    return Fields(
        Status=one.action, ID=one.id, From=one.attributes["image"], Type="container",
        Action=one.action, Actor=Fields(ID=one.id, Attributes=one.attributes), Scope="local",
        Time=int(one.at), TimeNano=int(one.at * 1e9),
    )  # fmt: skip


def _as_json(one: Happened) -> dict[str, Any]:
    """Return an event with the names that it has in docker's JSON."""
    return {
        "status": one.action, "id": one.id, "from": one.attributes["image"], "Type": "container",
        "Action": one.action, "Actor": {"ID": one.id, "Attributes": one.attributes},
        "scope": "local", "time": int(one.at), "timeNano": int(one.at * 1e9),
    }  # fmt: skip
