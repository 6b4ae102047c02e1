"""`minirun volume`: docker's commands for volumes. What a volume is: minirun.running.volumes."""

from __future__ import annotations

import os
import stat

from minirun.cli import entry_of, verb, words
from minirun.cli.flags import Flags, flag
from minirun.cli.output import show, write
from minirun.common import table
from minirun.core.errors import MinirunError, UsageError
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import say
from minirun.core.lazy import lazy
from minirun.core.rootfs.inroot import Root
from minirun.running import volumes
from minirun.running.volumes import Volume, VolumeError

with lazy:
    from minirun.faces.inspect import sizes
    from minirun.faces.show.template import formats, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_HERE = "minirun.docker.volume"
COMMANDS = dict.fromkeys(("create", "ls", "inspect", "rm", "prune"), _HERE)
_FILTERS = ("name", "label", "dangling", "driver")
_ANONYMOUS = "com.docker.volume.anonymous"
"""docker's label of an anonymous volume."""
FIELDS = {
    "Driver": "DRIVER", "Name": "VOLUME NAME", "Scope": "SCOPE", "Mountpoint": "MOUNTPOINT",
    "Labels": "LABELS", "CreatedAt": "CREATED AT",
}  # fmt: skip
"""What stands above a column of `volume ls --format 'table …'`."""


class VolumeCommand(Flags):
    """Manage volumes."""

    command, mixed = "volume", False


class VolumeCreate(Flags):
    """Make a volume."""

    command = "volume create"
    driver: str = flag("-d", default="local")
    label: list[str]
    opt: list[str] = flag("-o")
    name: str


class VolumeLs(Flags):
    """List volumes."""

    command = "volume ls"
    quiet: bool = flag("-q")
    filter: list[str] = flag("-f")
    format: str = flag(default="table")


class VolumeInspect(Flags):
    """Print all that is known of volumes."""

    command = "volume inspect"
    format: str = flag("-f")


class VolumeRm(Flags):
    """Remove volumes."""

    command = "volume rm"
    force: bool = flag("-f")


class VolumePrune(Flags):
    """Remove volumes that no container uses."""

    command = "volume prune"
    all: bool = flag("-a")
    force: bool = flag("-f")
    filter: list[str]


def main_volume(args: list[str], settings: Settings) -> int:
    """Run one of the `volume` commands; return its exit status."""
    name, rest = verb(VolumeCommand(args), COMMANDS)
    return entry_of(name, COMMANDS)(rest, settings)


def main_create(args: list[str], settings: Settings) -> int:
    """Make a volume, unless there is one of its name; print the name."""
    flags = VolumeCreate(args)
    if len(flags.args) > 1 or (flags.args and flags.name):
        raise UsageError("volume create takes one name", "minirun volume create NAME", 1)
    if flags.driver != "local":
        text = f"create: plugin {flags.driver!r} not found: minirun has local volumes alone"
        raise VolumeError(text, "--driver local")
    name = flags.args[0] if flags.args else flags.name
    volume = Volume(
        volumes.check_name(name) if name else volumes.new_name(),
        labels=words.labels(flags.label, []),
        options=volumes.check_options(_options(flags.opt)),
        anonymous=not name,
    )
    with volumes.locked(settings.store):
        volumes.make(settings.store, volume)
    return show([volume.name])


def _options(texts: list[str]) -> dict[str, str]:
    for text in texts:
        if not text.partition("=")[0]:
            raise UsageError(f"invalid --opt {text!r}", "--opt KEY=VALUE")
    return dict(text.partition("=")[::2] for text in texts)


def main_ls(args: list[str], settings: Settings) -> int:
    """List volumes."""
    flags = VolumeLs(args)
    flags.none()
    wanted = words.filters(flags.filter, _FILTERS)
    for value in wanted.get("dangling", ()):
        if value not in ("true", "false", "1", "0"):
            raise UsageError(f"invalid --filter 'dangling={value}'", "true or false", 1)
    found = [volume for volume in _all(settings.store) if _fits(volume, wanted, settings)]
    if flags.quiet:
        return show(each.name for each in found)
    if flags.format == "table":
        rows = [("DRIVER", "VOLUME NAME"), *((volumes.LOCAL, each.name) for each in found)]
        return write(table.text(rows, 3))
    return write(formats.lines(flags.format, [_fields(each, settings) for each in found], FIELDS))


def _fields(volume: Volume, settings: Settings) -> values.Fields:
    """Return what a template sees of a volume, with docker's names."""
    labels = _labels(volume)
    return values.Fields(
        Driver=volumes.LOCAL, Labels=",".join(f"{key}={value}" for key, value in labels.items()),
        Mountpoint=volumes.data(settings.store, volume.name), Name=volume.name, Scope="local",
        CreatedAt=volume.created, Label=lambda name: labels.get(name, ""),
    )  # fmt: skip


def _all(store: str) -> list[Volume]:
    found = []
    for name in volumes.names(store):
        try:
            found.append(volumes.load(store, name))
        except MinirunError as error:
            say(error.line())
    return found


def _fits(volume: Volume, wanted: dict[str, list[str]], settings: Settings) -> bool:
    """Return True if all filters of `volume ls` let the volume through."""
    dangling = {value in ("true", "1") for value in wanted.get("dangling", ())}
    return (
        any(part in volume.name for part in wanted.get("name", [""]))
        and volumes.LOCAL in wanted.get("driver", [volumes.LOCAL])
        and words.has_labels(_labels(volume), wanted.get("label", ()))
        and (not dangling or dangling == {volume.name not in volumes.users(settings)})
    )


def _labels(volume: Volume) -> dict[str, str]:
    return volume.labels | ({_ANONYMOUS: ""} if volume.anonymous else {})


def document(volume: Volume, settings: Settings) -> dict[str, Any]:
    """Return a volume with docker's names: what `volume inspect` prints."""
    return {
        "CreatedAt": volume.created, "Driver": volumes.LOCAL, "Labels": _labels(volume),
        "Mountpoint": volumes.data(settings.store, volume.name), "Name": volume.name,
        "Options": volume.options or None, "Scope": "local",
    }  # fmt: skip


def main_inspect(args: list[str], settings: Settings) -> int:
    """Print volumes as a JSON list; one that is missing is a line on standard error, and status
    1."""
    flags = VolumeInspect(args)
    if not flags.args:
        raise UsageError("volume inspect takes one name at least", "minirun volume ls", 1)
    rows, status = [], 0
    for name in flags.args:
        try:
            found = document(volumes.load(settings.store, name), settings)
            rows.append(values.Fields(found))
        except MinirunError as error:
            say(error.line())
            status = 1
    write(formats.documents(flags.format, rows))
    return status


def prune(
    settings: Settings, fits: Callable[[Volume], bool] = lambda volume: volume.anonymous
) -> tuple[list[str], int]:
    """Remove the volumes that no container uses and that fit, by default the anonymous ones.

    Returns their names, and the bytes that they had. Raises MinirunError, OSError.
    """
    total, removed = 0, []
    with volumes.locked(settings.store):
        used = volumes.users(settings)
        for each in _all(settings.store):
            if each.name not in used and fits(each):
                total += _size(volumes.data(settings.store, each.name))
                volumes.remove(settings.store, each.name)
                removed.append(each.name)
    return removed, total


def main_rm(args: list[str], settings: Settings) -> int:
    """Remove volumes that no container uses; print their names."""
    flags = VolumeRm(args)
    if not flags.args:
        raise UsageError("volume rm takes one name at least", "minirun volume ls", 1)
    status = 0
    for name in flags.args:
        try:
            _remove(settings, name, force=flags.force)
            show([name])
        except MinirunError as error:
            say(error.line())
            status = 1
    return status


def _remove(settings: Settings, name: str, *, force: bool) -> None:
    """Remove a volume. Raises VolumeError if it is in use, or if there is none without `force`."""
    with volumes.locked(settings.store):
        if force and name not in volumes.names(settings.store):
            return
        volumes.load(settings.store, name)
        if ids := volumes.users(settings).get(name):
            text = f"remove {name}: volume is in use - [{', '.join(sorted(ids))}]"
            raise VolumeError(text, f"minirun rm {min(ids)}")
        volumes.remove(settings.store, name)


def main_prune(args: list[str], settings: Settings) -> int:
    """Remove the anonymous volumes that no container uses, with --all the others too."""
    flags = VolumePrune(args)
    flags.none()
    kept, dropped, everything = _of_labels(flags.filter)
    everything = everything or flags.all
    kind = "all volumes" if everything else "anonymous volumes"
    if not flags.force:
        say(f"this will remove {kind} not used by at least one container. Continue? [y/N]")
        if _answer().strip().lower() not in ("y", "yes"):
            raise VolumeError("volume prune has been cancelled", "--force does not ask")

    def fits(volume: Volume) -> bool:
        labels = _labels(volume)
        has_none = not any(words.has_labels(labels, [row]) for row in dropped)
        return words.has_labels(labels, kept) and has_none and (everything or volume.anonymous)

    removed, total = prune(settings, fits)
    if removed:
        show(["Deleted Volumes:", *removed, ""])
    return show([f"Total reclaimed space: {sizes.human(total)}"])


def _answer() -> str:
    """Return the line that is typed; "" at the end of the input."""
    text = b""
    while not text.endswith(b"\n") and (byte := os.read(0, 1)):
        text += byte
    return text.decode(errors="replace")


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


def _size(path: str) -> int:
    """Return the bytes on the disk of the files below a directory, whose tree is not trusted."""
    root, total, waiting = Root.at(path), 0, ["."]
    try:
        while waiting:
            folder = waiting.pop()
            try:
                fd = root.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except OSError:
                continue  # gone, or deeper than a path can say
            try:
                for name in os.listdir(fd):
                    info = os.stat(name, dir_fd=fd, follow_symlinks=False)
                    total += info.st_blocks * 512
                    waiting += [f"{folder}/{name}"] if stat.S_ISDIR(info.st_mode) else []
            finally:
                os.close(fd)
    finally:
        root.close()
    return total
