"""docker's `events`: create, start, die, destroy of containers, from the logs that minirun keeps.

There is no daemon that writes them down. A container's record says when it was made and has ended,
its log when its command began, and the name of a kept log (minirun.running.kept_logs) when the
container was deleted. The exit status of one that is gone is in its log.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any

from minirun.cli import words
from minirun.cli.output import show, write
from minirun.common import docker_record
from minirun.core.keeping import places, state
from minirun.core.keeping.record import Record
from minirun.docker.ps import labels
from minirun.engines import roots
from minirun.faces.inspect import past
from minirun.faces.show.template import formats
from minirun.faces.show.template.values import Fields, json_of
from minirun.running import kept_logs, listing, moments

TYPE_CHECKING = False
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
    mark: str
    """What tells it from the same of another start of the container."""


class Watcher:
    """Reads what has happened to the containers of all state roots, again and again."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.started: dict[tuple[int, int], tuple[float, int]] = {}
        """Log, by inode and time of its last change → when its command began: see started()."""
        self.origins: dict[int, dict[str, Any]] = {}
        """Inode of a kept log → the image that it names."""
        self.seen: dict[int, ContainerRecord] = {}
        """Inode of a log → the container's record, while there was one: a kept log has no labels,
        and no exit status."""

    def read(self) -> list[Happened]:
        """Return all that is known, the oldest first."""
        found: list[Happened] = []
        for root in roots.known(self.settings):
            for record in listing.records(root):
                if record.status not in ("damaged", state.CREATING):  # it may have no log yet
                    found += self._of_record(record, f"{record.directory}/{places.EVENTS}")
            found += self._of_history(root)
        order = {"create": 0, "start": 1, "die": 2, "destroy": 3}
        return sorted(found, key=lambda one: (one.at, order[one.action]))

    def _of_record(self, record: ContainerRecord, log: str, name: str = "") -> list[Happened]:
        """Return the events of a container whose record is known; none if its log is gone.

        `name`: of a container that is gone; else its directory says it. `delete` moves the log
        away first: from then on the container belongs to the history.
        """
        try:
            self.seen[os.stat(log).st_ino] = record
        except OSError:
            return []
        attributes = labels(record) | {
            "image": docker_record.of(record).image or "",
            "name": name or state.name_of(record.directory),
        }  # fmt: skip
        made = moments.moment(record.created)
        found = [Happened(made, "create", record.id, attributes, record.created)]
        if begun := self._begun(log):
            found.append(Happened(begun[0], "start", record.id, attributes, str(begun[1])))
        if record.finished:
            ended = attributes | {"exitCode": str(record.exit_status)}
            at = moments.moment(record.finished)
            found.append(Happened(at, "die", record.id, ended, record.finished))
        return found

    def _begun(self, log: str) -> tuple[float, int] | None:
        """Return when the command of a log began: see minirun.faces.inspect.past.started."""
        try:
            info = os.stat(log)
            key = (info.st_ino, info.st_mtime_ns)
            if key not in self.started and (found := past.started(log)):
                self.started[key] = found
        except OSError:
            return None
        return self.started.get(key)

    def _origin(self, log: str, number: int) -> dict[str, Any]:
        """Return what a kept log says of its container; `number` is the log's inode."""
        if number not in self.origins:
            with suppress(OSError):
                self.origins[number] = past.origin(log)
        found: dict[str, Any] = self.origins.get(number, {})
        return found

    def _of_history(self, root: str) -> list[Happened]:
        """Return the events of containers that are gone; their log's name says when."""
        return [one for path in kept_logs.paths(root) for one in self._of_kept(path)]

    def _of_kept(self, path: str) -> list[Happened]:
        stamp, number, _ = path.rpartition("/")[2].split(".", 2)
        try:
            info = os.stat(path)
            end = moments.moment(
                f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:11]}:{stamp[11:13]}:{stamp[13:]}"
            )
        except (OSError, ValueError):
            return []
        container_id, begun = kept_logs.container_of(path), self._begun(path)
        record = self.seen.get(info.st_ino)
        origin = self._origin(path, info.st_ino)
        own = {"image": origin.get("image") or "", "name": origin.get("name") or container_id}
        attributes = _texts(origin.get("labels")) | _texts(own)
        found = []
        if record and record.id == container_id:
            if not (found := self._of_record(record, path, attributes["name"])):
                return []  # its log has just been removed: the history keeps so many
            attributes = found[0].attributes
        elif begun:
            found = [
                Happened(begun[0], action, container_id, attributes, str(begun[1]))
                for action in ("create", "start")
            ]
        gone = max(end, min(info.st_mtime, end + 1))  # the name has whole seconds
        if begun and not any(one.action == "die" for one in found):
            found.append(Happened(gone, "die", container_id, attributes | _ended(path), number))
        return [*found, Happened(gone, "destroy", container_id, attributes, number)]


def _texts(value: Any) -> dict[str, str]:
    """Return the labels that a log has noted."""
    return {str(key): str(text) for key, text in value.items()} if isinstance(value, dict) else {}


def _ended(log: str) -> dict[str, str]:
    """Return the exit status that a kept log says, as an attribute."""
    try:
        status = past.exit_status(log)
    except OSError:
        return {}
    return {} if status is None else {"exitCode": str(status)}


def follow(settings: Settings, texts: list[str], form: str, since: str, until: str) -> int:
    """Print docker's events: those of --filter's `texts`, by --format, from --since to --until.

    Raises MinirunError, OSError.
    """
    wanted = words.filters(texts, KNOWN)
    begin = moments.point(since, "--since") if since else time.time()
    end = moments.point(until, "--until") if until else float("inf")
    template = formats.read(form)[0] if form and not _is_json(form) else None
    watcher = Watcher(settings)
    printed: set[tuple[str, str, str]] = set()
    if not since:
        printed = {(one.id, one.action, one.mark) for one in watcher.read()}
    while True:
        last_look = time.time() >= end
        for one in watcher.read():
            key = (one.id, one.action, one.mark)
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
        "container": {one.id, state.short(one.id), one.attributes["name"]},
        "image": {one.attributes["image"], one.attributes["image"].partition(":")[0]},
    }  # fmt: skip
    if not words.has_labels(one.attributes, wanted.get("label", ())):
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
