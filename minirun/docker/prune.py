"""`prune` of containers, images, networks, volumes, and of all: what is not needed goes.

Containers go that have ended: those of `run IMAGE` below this state root. One that an engine has
made is the engine's to remove; one whose maker was killed is `minirun gc`'s.
"""

from __future__ import annotations

import os

from minirun.cli import words
from minirun.cli.flags import Flags, flag
from minirun.cli.output import show, write
from minirun.common import docker_record
from minirun.core.errors import MinirunError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import say
from minirun.docker import filters, network, volume
from minirun.docker.ps import labels
from minirun.faces.inspect.sizes import human, sizes
from minirun.image import workshop
from minirun.net import attach
from minirun.running import control, listing, moments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.keeping.container_record import ContainerRecord
    from minirun.running.volumes import Volume

_FILTERS = ("label", "until")
_UNUSED = [
    "all images that no container was made of",
    "all layers and archives that no image and no container needs",
]


class ContainerPrune(Flags):
    """Remove all containers that have ended."""

    command = "container prune"
    filter: list[str]
    force: bool = flag("-f")


class SystemPrune(Flags):
    """Remove containers that have ended, networks and files of images that are not needed."""

    command = "system prune"
    all: bool = flag("-a")
    filter: list[str]
    force: bool = flag("-f")
    volumes: bool


class ImagePrune(Flags):
    """Remove layers and archives that are not needed; with --all images too."""

    command = "image prune"
    all: bool = flag("-a")
    filter: list[str]
    force: bool = flag("-f")


class VolumePrune(Flags):
    """Remove volumes that no container uses."""

    command = "volume prune"
    all: bool = flag("-a")
    force: bool = flag("-f")
    filter: list[str]


class NetworkPrune(Flags):
    """Remove all networks that no container is on."""

    command = "network prune"
    filter: list[str]
    force: bool = flag("-f")


def main_of_containers(args: list[str], settings: Settings) -> int:
    """Remove containers that have ended; print their ids and the bytes that are free now."""
    flags = ContainerPrune(args)
    flags.none()
    wanted = _wanted(flags.filter)
    _ask(flags.force, ["all containers that have ended"])
    freed, failed = _containers(settings, wanted)
    show([f"Total reclaimed space: {human(freed)}"])
    return failed


def main_of_system(args: list[str], settings: Settings) -> int:
    """Remove what is not needed: containers, networks, layers and archives of images."""
    flags = SystemPrune(args)
    flags.none()
    wanted = _wanted(flags.filter)
    if flags.volumes and "until" in wanted:
        raise UsageError("--filter until: no effect with --volumes", "one of them", 1)
    _ask(flags.force, [
        "all containers that have ended", "all networks that no container is on",
        *(_UNUSED if flags.all else _UNUSED[1:]),
        *(["all anonymous volumes that no container uses"] if flags.volumes else []),
    ])  # fmt: skip
    freed, failed = _containers(settings, wanted)
    if attach.owns_network():
        _print("Deleted Networks:", network.prune(settings, wanted))
    if flags.volumes:
        names, more = volume.prune(settings)
        _print("Deleted Volumes:", names)
        freed += more
    freed += _images(settings, wanted, unused=flags.all)
    show([f"Total reclaimed space: {human(freed)}"])
    return failed


def main_of_networks(args: list[str], settings: Settings) -> int:
    """Remove all networks that no container is on; print their names."""
    flags = NetworkPrune(args)
    flags.none()
    wanted = _wanted(flags.filter)
    _ask(flags.force, ["all networks that no container is on"])
    _print("Deleted Networks:", network.prune(settings, wanted))
    return 0


def main_of_volumes(args: list[str], settings: Settings) -> int:
    """Remove the anonymous volumes that no container uses, with --all the others too."""
    flags = VolumePrune(args)
    flags.none()
    kept, dropped, everything = _of_labels(flags.filter)
    everything = everything or flags.all
    kind = "all" if everything else "all anonymous"
    _ask(flags.force, [f"{kind} volumes that no container uses"])

    def fits(one: Volume) -> bool:
        own = volume.labels(one)
        has_none = not any(words.has_labels(own, [row]) for row in dropped)
        return words.has_labels(own, kept) and has_none and (everything or one.anonymous)

    removed, total = volume.prune(settings, fits)
    _print("Deleted Volumes:", removed)
    return show([f"Total reclaimed space: {human(total)}"])


def _of_labels(filters: list[str]) -> tuple[list[str], list[str], bool]:
    """Return what --filter of `prune` says: label=, label!=, and all=1. Raises UsageError."""
    kept, dropped, everything = [], [], False
    for text in filters:
        key, _, value = text.partition("=")
        if key == "label" and value:
            kept.append(value)
        elif key == "label!" and value:
            dropped.append(value)
        elif key == "all" and value in ("1", "true", "0", "false"):
            everything = value in ("1", "true")
        else:
            hint = "label=KEY[=VALUE], label!=KEY[=VALUE], all=1"
            raise UsageError(f"invalid --filter {text!r}", hint)
    return kept, dropped, everything


def main_of_images(args: list[str], settings: Settings) -> int:
    """Remove layers and archives of images that are not needed; with --all images too."""
    flags = ImagePrune(args)
    flags.none()
    wanted = _wanted(flags.filter, "dangling", "label!")
    unused = flags.all or words.dangling(wanted) == {False}
    _ask(flags.force, _UNUSED if unused else _UNUSED[1:])
    freed = _images(settings, wanted, unused=unused)
    show([f"Total reclaimed space: {human(freed)}"])
    return 0


def _images(settings: Settings, wanted: dict[str, list[str]], *, unused: bool) -> int:
    """Remove unused layers; with `unused`, first the images that no container was made from.

    The filters choose among images; what no image needs has neither label nor name. Return how many
    bytes are free now. Raises MinirunError.
    """
    latest = filters.until(wanted.get("until", []))
    names = workshop.call("remove_unused")(settings, wanted, latest) if unused else []
    paths, bytes_ = workshop.call("collect")(settings)
    rows = [*(f"untagged: {name}" for name in names), *map(_deleted, paths)]
    _print("Deleted Images:", rows)
    return int(bytes_)


def _deleted(path: str) -> str:
    """Return docker's line for a layer or an archive that is gone, or for another file."""
    name = os.path.basename(path)
    is_digest = len(name) == 64 and set(name) <= set("0123456789abcdef")
    return f"deleted: sha256:{name}" if is_digest else f"deleted: {path}"


def _wanted(texts: list[str], *more: str) -> dict[str, list[str]]:
    """Return the filters, which may be _FILTERS and these. Raises UsageError."""
    wanted = words.filters(texts, (*_FILTERS, *more))
    filters.until(wanted.get("until", []))
    return wanted


def _ask(force: bool, what: list[str]) -> None:
    """Ask on the terminal, or whatever standard input is. Raises MinirunError for another answer
    than yes."""
    if force:
        return
    lines = "".join(f"  - {line}\n" for line in what)
    write(f"WARNING! This will remove:\n{lines}\nAre you sure you want to continue? [y/N] ")
    answer = b""
    while not answer.endswith(b"\n") and (sign := os.read(0, 1)) and len(answer) < 99:
        answer += sign
    if answer.strip().lower() not in (b"y", b"yes"):
        write("\n" if not answer.endswith(b"\n") else "")
        raise MinirunError("nothing is removed", "answer y, or give --force", status=1)


def _containers(settings: Settings, wanted: dict[str, list[str]]) -> tuple[int, int]:
    """Remove those that have ended; return the bytes that they had, and 1 if one stays."""
    latest = filters.until(wanted.get("until", []))
    removed, freed, failed = [], 0, 0
    for record in listing.records(settings.root):
        if not _is_over(record) or moments.moment(record.created) > latest:
            continue
        if not words.has_labels(labels(record), wanted.get("label", ())):
            continue
        own, _ = sizes(record)
        try:
            control.delete(settings, record.id, force=record.status == state.CREATED)
        except (MinirunError, OSError) as error:
            why = error.line() if isinstance(error, MinirunError) else error
            say(f"{state.shown_name(record.directory)}: {why}")
            failed = 1
        else:
            removed.append(record.id)
            freed += own
    _print("Deleted Containers:", removed)
    return freed, failed


def _is_over(record: ContainerRecord) -> bool:
    """Return True for one of `run IMAGE` that has ended, and is not to start again; or for one of
    `create IMAGE` that was not started."""
    whole = docker_record.of(record).managed and record.complete and not record.origin
    if whole and record.status == state.CREATED:
        return True
    return whole and record.status == state.STOPPED and not state.is_alive(record.supervisor)


def _print(title: str, names: list[str]) -> None:
    if names:
        show([title, *names, ""])
