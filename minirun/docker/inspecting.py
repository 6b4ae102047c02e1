"""docker's `inspect`: `inspect --format`, `--type` and `--size`, of what minirun keeps.

Without a type a name means a container, else an image, a network, a volume: docker's order.
"""

from __future__ import annotations

import os

from minirun.cli.flags import ANY, Flags, flag
from minirun.cli.output import write
from minirun.core.errors import ImageError, MinirunError, StateError, UsageError
from minirun.core.keeping.visible import say
from minirun.docker import docker_form, network, volume
from minirun.engines import roots
from minirun.faces.show.log import find
from minirun.faces.show.template import formats
from minirun.faces.show.template.values import Fields, TemplateError
from minirun.image import workshop
from minirun.net.network import NetworkError
from minirun.running import lookup, volumes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.core.keeping.settings import Settings


class ContainerInspect(Flags):
    """Print docker's document of containers."""

    command = "container inspect"
    format: str = flag("-f")
    size: bool = flag("-s")


class NetworkInspect(Flags):
    """Print all that is known of networks."""

    command = "network inspect"
    format: str = flag("-f")
    picture: bool
    svg: bool


class VolumeInspect(Flags):
    """Print all that is known of volumes."""

    command = "volume inspect"
    format: str = flag("-f")


def main_of_volume(args: list[str], settings: Settings) -> int:
    """Print docker's document of volumes."""
    flags = VolumeInspect(args)
    flags.takes(1, ANY)
    return inspect(flags.args, flags.format, "volume", settings)


def main_of_network(args: list[str], settings: Settings) -> int:
    """Print docker's document of networks, or a picture of what the kernel has."""
    flags = NetworkInspect(args)
    if flags.picture and flags.svg:
        raise UsageError("--picture or --svg, not both")
    if flags.picture or flags.svg:
        return network.draw(flags.args, settings, svg=flags.svg)
    flags.takes(1, ANY)
    return inspect(flags.args, flags.format, "network", settings)


def main_of_container(args: list[str], settings: Settings) -> int:
    """Print docker's document of containers."""
    flags = ContainerInspect(args)
    flags.takes(1, ANY)
    return inspect(flags.args, flags.format, "container", settings, size=flags.size)


def inspect(
    names: list[str], form: str, kind: str, settings: Settings, *, size: bool = False
) -> int:
    """Print one document for each name.

    Unknown names are reported, and the status is 1; the others are printed. Raises UsageError,
    TemplateError, OSError.
    """
    if kind and kind not in KINDS:
        raise UsageError(f"invalid --type {kind!r}", f"one of {', '.join(KINDS)}", 1)
    formats.check(form)  # a wrong one is told before anything is looked for
    found: list[Fields] = []
    failed = False
    for name in names:
        try:
            found.append(_document(name, kind, settings, size=size))
        except MinirunError as error:
            say(error.line())
            failed = True
    try:
        text = formats.documents(form, found)
    except TemplateError as error:
        say(error.line())
        text, failed = "\n", True
    return write(text) or int(failed)


def _document(name: str, kind: str, settings: Settings, *, size: bool) -> Fields:
    """Return the document of what has a name. Raises MinirunError, OSError."""
    for each, read in KINDS.items():
        if kind in ("", each) and (found := read(name, settings, size)) is not None:
            return found
    text = f"no such {kind or 'object'}: {name}"
    if kind == "network":  # docker's words
        text = f"network {name} not found"
    if kind in ("", "container") and find.is_left(name, *roots.known(settings)):
        raise StateError(text, f"what it did is left: minirun timeline {name}", status=1)
    hint = {"": "minirun ps -a, images, network ls and volume ls", "container": "minirun ps -a"}
    words = hint.get(kind, {"image": "minirun images"}.get(kind, f"minirun {kind} ls"))
    raise StateError(text, f"{words} {'list' if not kind else 'lists'} what there is", status=1)


def _container(name: str, settings: Settings, size: bool) -> Fields | None:
    place, container_id = roots.locate(settings, name)
    if "/" in container_id or not os.path.lexists(f"{place.root}/{container_id}"):
        return None
    return docker_form.document(lookup.load(place, container_id, whole=True), size=size)


def _image(name: str, settings: Settings, size: bool) -> Fields | None:
    try:
        found: Fields = workshop.call("inspected")(settings.store, name)
        return found
    except ImageError as error:
        if "o such image" in str(error) or "invalid reference" in str(error):
            return None
        raise


def _network(name: str, settings: Settings, size: bool) -> Fields | None:
    try:
        found = network.load(settings.store, network.named(settings.store, name))
        return network.document(settings, found)
    except NetworkError as error:
        if error.hint.startswith("minirun network ls"):  # it is not there; not: it is damaged
            return None
        raise
    except UsageError:
        return None  # no name of a network


def _volume(name: str, settings: Settings, size: bool) -> Fields | None:
    if not volumes.is_name(name) or name not in volumes.names(settings.store):
        return None
    return volume.document(volumes.load(settings.store, name), settings)


KINDS: dict[str, Callable[[str, Settings, bool], Fields | None]] = {
    "container": _container, "image": _image, "network": _network, "volume": _volume,
}  # fmt: skip
"""What --type names → what reads the document; it returns None if there is no such thing."""
