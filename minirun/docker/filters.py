"""--filter of docker's commands: NAME=VALUE, and which containers it lets through.

Of one name several values mean "one of them", of label "all of them"; several names mean "each".
"""

from __future__ import annotations

import re

from minirun.cli import words
from minirun.common import docker_record
from minirun.common.ports import exposed
from minirun.core.errors import ImageError, StateError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.container_record import ContainerRecord
from minirun.core.keeping.record import Record
from minirun.docker import health
from minirun.docker.docker_form import status_of
from minirun.image import split, store
from minirun.net import leases
from minirun.running import moments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.show.template.values import Fields

STATUSES = ("created", "restarting", "running", "removing", "paused", "exited", "dead")
HEALTH = ("starting", "healthy", "unhealthy", "none")
OF_CONTAINERS = (
    "ancestor", "before", "exited", "expose", "health", "id", "label", "name", "network", "publish",
    "since", "status", "volume",
)  # fmt: skip


class Candidate(Record):
    """A container that a filter is asked about."""

    record: ContainerRecord
    name: str
    labels: dict[str, str]
    networks: tuple[str, ...]
    mounts: tuple[Fields, ...]


def check(filters: dict[str, list[str]]) -> None:
    """Raise UsageError, with status 1, for a value that can never fit."""
    for value in filters.get("status", ()):
        _one_of("status", value, STATUSES)
    for value in filters.get("health", ()):
        _one_of("health", value, HEALTH)
    for value in filters.get("exited", ()):
        if not re.fullmatch(r"-?\d{1,9}", value, re.ASCII):
            raise UsageError(f"invalid --filter 'exited={value}'", "an exit status, such as 137", 1)
    for name in ("name", "id"):
        for value in filters.get(name, ()):
            try:
                re.compile(value)
            except (re.error, RecursionError, OverflowError) as error:
                text = f"invalid --filter '{name}={value}': {error}"
                raise UsageError(text, "a regular expression, such as ^web", 1) from None
    for name in ("publish", "expose"):
        for value in filters.get(name, ()):
            ports(name, value)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"invalid --filter '{name}={value}'", f"one of {', '.join(known)}", 1)


def ports(name: str, text: str) -> set[str]:
    """Return what publish=80, 80/udp or 8000-8003/tcp means: 80/tcp … Raises UsageError."""
    found = exposed(text)
    if found is None:
        hint = "a port, perhaps with its protocol: 80, 53/udp, 8000-8003/tcp"
        raise UsageError(f"invalid --filter '{name}={text}'", hint, 1)
    return set(found)


class ContainerFilter:
    """The filters of `ps` and of `container prune`."""

    def __init__(
        self, filters: dict[str, list[str]], records: list[ContainerRecord], store_path: str
    ) -> None:
        """Take the filters that words.filters() has read. Raises MinirunError, OSError."""
        check(filters)
        self.filters, self.store = filters, store_path
        self.before = [self._created(records, name) for name in filters.get("before", ())]
        self.since = [self._created(records, name) for name in filters.get("since", ())]
        self.ancestors = [_layers(store_path, name) for name in filters.get("ancestor", ())]

    def _created(self, records: list[ContainerRecord], name: str) -> str:
        called = [each for each in records if name in (each.id, state.name_of(each.directory))]
        begun = [each for each in records if state.is_made_up(each.id) and name]
        for record in (*called, *(each for each in begun if each.id.startswith(name))):
            return record.created
        raise StateError(f"no such container {name}", "minirun ps -a lists all", status=1)

    def fits(self, one: Candidate) -> bool:
        """Return True if the filters let a container through."""
        return all(getattr(self, f"_{name}")(one, values) for name, values in self.filters.items())

    def _id(self, one: Candidate, values: list[str]) -> bool:
        return any(re.search(value, one.record.id) for value in values)

    def _name(self, one: Candidate, values: list[str]) -> bool:
        names = (one.name, f"/{one.name}")
        return any(re.search(value, name) for value in values for name in names)

    def _label(self, one: Candidate, values: list[str]) -> bool:
        return words.has_labels(one.labels, values)

    def _exited(self, one: Candidate, values: list[str]) -> bool:
        status = one.record.exit_status
        return one.record.status == state.STOPPED and str(status) in values

    def _status(self, one: Candidate, values: list[str]) -> bool:
        return status_of(one.record) in values

    def _health(self, one: Candidate, values: list[str]) -> bool:
        return health_of(one.record) in values

    def _before(self, one: Candidate, values: list[str]) -> bool:
        return all(one.record.created < each for each in self.before)

    def _since(self, one: Candidate, values: list[str]) -> bool:
        return all(one.record.created > each for each in self.since)

    def _network(self, one: Candidate, values: list[str]) -> bool:
        return bool({*one.networks} & {*values})

    def _volume(self, one: Candidate, values: list[str]) -> bool:
        places = {row[key] for row in one.mounts for key in ("Name", "Source", "Destination")}
        return bool((places - {""}) & {*values})

    def _publish(self, one: Candidate, values: list[str]) -> bool:
        live = leases.published(self.store, one.record) if one.record.pid else []
        own = {f"{port['host_port']}/{port['protocol']}" for port in live}
        return any(own & ports("publish", value) for value in values)

    def _expose(self, one: Candidate, values: list[str]) -> bool:
        docker = docker_record.of(one.record)
        rows = [str(port) for port in (docker.declared or {}).get("ports") or ()]
        own = {port if "/" in port else f"{port}/tcp" for port in rows}
        own |= {f"{row[0]}/{row[1]}" for row in (docker.network.ports if docker.network else ())}
        return any(own & ports("expose", value) for value in values)

    def _ancestor(self, one: Candidate, values: list[str]) -> bool:
        """Return True for the image, and for one that begins with its layers."""
        own = list(one.record.choices.layers)
        docker = docker_record.of(one.record)
        names = {docker.image, (docker.image or "").removesuffix(":latest")}
        below = any(layers and own[: len(layers)] == layers for layers in self.ancestors)
        return below or bool(names & {*values})


def _layers(store_path: str, name: str) -> list[str]:
    """Return the layers of the image of that name or digest; none if there is no such image."""
    try:
        found = store.find(store_path, split(name))
    except (ImageError, OSError):
        found = None
    if found:
        return list(found.layers)
    digest = name.removeprefix("sha256:")
    for row in store.list_images(store_path) if len(digest) >= 4 else ():
        known = {row.get(key, "").removeprefix("sha256:") for key in ("digest", "id", "manifest")}  # type: ignore[attr-defined]
        if any(each.startswith(digest) for each in known if each):
            found = store.find(store_path, split(f"{row['name']}:{row['tag']}"))
            return list(found.layers) if found else []
    return []


def health_of(record: ContainerRecord) -> str:
    """Return starting, healthy or unhealthy; none for a container without a health check."""
    found = health.read(record.directory) or {}
    word = str(found.get("Status", "none"))
    return word if word in HEALTH else "none"


def until(values: list[str]) -> float:
    """Return the latest time of creation that `--filter until=…` lets through."""
    return min((moments.point(value, "--filter until") for value in values), default=float("inf"))
