"""`minirun volume`: docker's commands for volumes. What a volume is: minirun.running.volumes."""

from __future__ import annotations

import os
import stat

from minirun.cli import group, words
from minirun.cli.flags import Flags, flag
from minirun.cli.output import show
from minirun.core.errors import UsageError
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.core.rootfs.inroot import Root
from minirun.docker.kinds import Kind, Listed, Removed, ls, rm
from minirun.running import volumes
from minirun.running.volumes import Volume, VolumeError

with lazy:
    from minirun.faces.show.template import values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS = {
    "create": "minirun.docker.volume.main_create", "ls": "minirun.docker.volume.main_ls",
    "inspect": "minirun.docker.inspecting.main_of_volume", "rm": "minirun.docker.volume.main_rm",
    "prune": "minirun.docker.prune.main_of_volumes",
}  # fmt: skip
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


class VolumeLs(Listed):
    """List volumes."""

    command = "volume ls"


class VolumeRm(Removed):
    """Remove volumes."""

    command = "volume rm"


def main_volume(args: list[str], settings: Settings) -> int:
    """Run one of the `volume` commands; return its exit status."""
    return group(VolumeCommand(args), COMMANDS, settings)


def main_create(args: list[str], settings: Settings) -> int:
    """Make a volume, unless there is one of its name; print the name."""
    flags = VolumeCreate(args)
    flags.takes(0, 0 if flags.name else 1)
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
    return ls(VOLUME, VolumeLs(args), settings)


def main_rm(args: list[str], settings: Settings) -> int:
    """Remove volumes that no container uses; print their names."""
    return rm(VOLUME, VolumeRm(args), settings)


def _remove(settings: Settings, name: str) -> None:
    """Remove a volume. Raises VolumeError if it is in use, or if there is none."""
    with volumes.locked(settings.store):
        volumes.load(settings.store, name)
        if users := volumes.users(settings).get(name):
            text = f"remove {name}: volume is in use - [{', '.join(sorted(users))}]"
            raise VolumeError(text, f"minirun rm {min(users)}")
        volumes.remove(settings.store, name)


def _fields(volume: Volume, settings: Settings) -> values.Fields:
    """Return what a template sees of a volume, with docker's names."""
    own = labels(volume)
    return values.Fields(
        Driver=volumes.LOCAL, Labels=",".join(f"{key}={value}" for key, value in own.items()),
        Mountpoint=volumes.data(settings.store, volume.name), Name=volume.name, Scope="local",
        CreatedAt=volume.created, Label=lambda name: own.get(name, ""),
    )  # fmt: skip


def labels(volume: Volume) -> dict[str, str]:
    """Return a volume's labels, docker's of an anonymous one with them."""
    return volume.labels | ({_ANONYMOUS: ""} if volume.anonymous else {})


def document(volume: Volume, settings: Settings) -> values.Fields:
    """Return a volume with docker's names: what `volume inspect` prints."""
    return values.Fields(
        CreatedAt=f"{volume.created[:19]}Z", Driver=volumes.LOCAL,
        Labels=labels(volume) or values.NilMap(),
        Mountpoint=volumes.data(settings.store, volume.name), Name=volume.name,
        Options=volume.options or values.NilMap(), Scope="local",
    )  # fmt: skip


def prune(
    settings: Settings, fits: Callable[[Volume], bool] = lambda volume: volume.anonymous
) -> tuple[list[str], int]:
    """Remove the volumes that no container uses and that fit, by default the anonymous ones.

    Returns their names, and the bytes that they had. Raises MinirunError, OSError.
    """
    total, removed = 0, []
    with volumes.locked(settings.store):
        used = volumes.users(settings)
        for each in VOLUME.all(settings.store):
            if each.name not in used and fits(each):
                total += _size(volumes.data(settings.store, each.name))
                volumes.remove(settings.store, each.name)
                removed.append(each.name)
    return removed, total


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


VOLUME = Kind(
    names=volumes.names, load=volumes.load, labels=labels,
    in_use=lambda volume, settings: volume.name in volumes.users(settings),
    filters=("name", "label", "dangling", "driver"),
    fits=lambda _, wanted: volumes.LOCAL in wanted.get("driver", [volumes.LOCAL]),
    headings=FIELDS, fields=_fields,
    heads=("DRIVER", "VOLUME NAME"), row=lambda volume, _: (volumes.LOCAL, volume.name),
    remove=_remove, id=lambda volume: volume.name, named=lambda _, name: name,
)  # fmt: skip
