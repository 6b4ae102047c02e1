"""`minirun image inspect`, `image diff`, `diff ID`: what is in an image, and what differs."""

from __future__ import annotations

import json
from typing import Any

from minirun.cli.flags import ANY, Flags, flag
from minirun.cli.output import show, write
from minirun.core.errors import ImageError, UsageError, from_os
from minirun.core.keeping import places
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import say
from minirun.engines import roots
from minirun.faces.show.template import formats
from minirun.faces.show.template.values import Fields, NilList, NilMap
from minirun.image import store as shelf
from minirun.running import lookup
from rootfs_tools import catalogue, compare
from rootfs_tools.archives import saving
from rootfs_tools.image_spec import digest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class ImageInspect(Flags):
    """Print all that is known of images."""

    command = "image inspect"
    format: str = flag("-f")


class ImageDiff(Flags):
    """Show how two images differ."""

    command = "image diff"
    json: bool


def main(args: list[str], settings: Settings) -> int:
    """Print a JSON list with a row for each image, as docker has it.

    One that is not there is a line, and status 1; the others are printed. Raises TemplateError.
    """
    flags = ImageInspect(args)
    flags.takes(1, ANY)
    formats.read(flags.format or "json")
    rows, failed = [], 0
    for name in flags.args:
        try:
            rows.append(inspected(settings.store, name))
        except ImageError as error:
            say(error.line())
            failed = 1
    return write(formats.documents(flags.format, rows)) or failed


def inspected(store: str, name: str) -> Fields:
    """Return all that is known of an image, with docker's names. Raises ImageError."""
    image = catalogue.resolve(store, name)
    details = catalogue.details(store, image.name)
    found = saving.documents(store, details)
    config = json.loads(found[2]) if found else saving.config_of(image, details, [])
    same = [row for row in shelf.list_images(store) if _is_same(row, details)]
    from_elsewhere = {f"{row['name']}@{row['digest']}" for row in same} if found else set()
    variant, os_version = config.get("variant", ""), config.get("os.version", "")
    layers = (config.get("rootfs") or {}).get("diff_ids") or []
    last = (config.get("history") or [{}])[-1]  # where `commit -m` writes
    return Fields(
        Id=digest_of(found[2]) if found else image.digest,
        RepoTags=sorted(f"{row['name']}:{row['tag']}" for row in same),
        RepoDigests=sorted(from_elsewhere), Parent="",
        Comment=config.get("comment") or last.get("comment", ""),
        Created=config.get("created", ""), DockerVersion="",
        Author=config.get("author", ""), Config=_config(config.get("config") or {}),
        Architecture=config.get("architecture", ""), Variant=variant, Os=config.get("os", ""),
        OsVersion=os_version, Size=details.get("size", 0),
        GraphDriver=Fields(Data=_directories(image.layers), Name="overlay2"),
        RootFS=Fields(Type="layers", Layers=layers),
        Metadata=Fields(LastTagTime="0001-01-01T00:00:00Z"),  # Go's zero: it is not recorded
        Annotations=json.loads(found[1]).get("annotations") or {} if found else {},
        Origin=image.origin, Directories=list(image.layers),
    ).optionally(Variant=variant, OsVersion=os_version)  # fmt: skip


_EMPTY = {
    "User": "", "ExposedPorts": NilMap(), "Env": NilList(), "Entrypoint": NilList(),
    "Cmd": NilList(), "Volumes": NilMap(), "WorkingDir": "", "Labels": NilMap(), "StopSignal": "",
    "Healthcheck": None, "OnBuild": NilList(), "Shell": NilList(),
}  # fmt: skip
"""Fields of an image's configuration, if they are not there: OCI's image-spec, and docker's."""


def _config(config: dict[str, Any]) -> Fields:
    """Return an image's configuration, whose fields a template knows even if they are empty."""
    check = config.get("Healthcheck")
    healthy = {"Healthcheck": Fields(check)} if isinstance(check, dict) else {}
    shown = Fields(_EMPTY | config | healthy)
    shown.optional = frozenset(shown)
    return shown


def _directories(layers: Sequence[str]) -> dict[str, str]:
    """Return where the layers are, with the names of overlay2's data: the last one is the upper."""
    if not layers:
        return {}
    *lower, upper = layers
    return {**({"LowerDir": ":".join(reversed(lower))} if lower else {}), "UpperDir": upper}


def _is_same(row: Any, details: Any) -> bool:
    """Return True if two names mean one image."""
    key = "manifest" if details.get("manifest") else "digest"
    return bool(row.get(key) == details[key])


def main_diff(args: list[str], settings: Settings) -> int:
    """Print what is added, changed and deleted from one image to another; return 0.

    Raises ImageError.
    """
    flags = ImageDiff(args)
    flags.takes(2)
    old, new = (compare.stack(settings.store, name) for name in flags.args)
    try:
        rows = sorted(compare.compared(old, new), key=lambda change: change.path)
    except OSError as error:
        raise from_os(error, "image diff") from None
    return _show(rows, flags.json)


def changes(name: str, settings: Settings, as_json: bool) -> int:
    """Print what a container has done to its image's files, as docker's `diff` does; return 0.

    Raises StateError, UsageError for a container without layers.
    """
    container = lookup.load(*roots.locate(settings, name))
    if not container.config.layers:
        text = f"container {container.name} has no layer of its own: it writes into its bundle"
        raise UsageError(text, "diff ID --stage N shows what a stage has changed", 1)
    upper = f"{container.directory}/{places.UPPER}"
    try:
        return _show(list(compare.changed(upper, container.config.layers)), as_json)
    except OSError as error:
        raise from_os(error, "diff") from None


def _show(rows: list[compare.FileChange], as_json: bool) -> int:
    if as_json:
        return write(json.dumps([row._asdict() for row in rows], indent=2) + "\n")
    return show(f"{row.kind} {row.path}" for row in rows)
