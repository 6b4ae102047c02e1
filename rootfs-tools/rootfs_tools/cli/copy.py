"""`minirun cp`: files between the host and a container: rootfs_tools.copying."""

from __future__ import annotations

import os
from contextlib import ExitStack

from minirun.cli import as_runc
from minirun.cli.flags import Flags, flag
from minirun.core.container import Container
from minirun.core.errors import StateError, UsageError
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import say, warn
from minirun.engines import roots
from minirun.running import lookup
from rootfs_tools import container_tree, copying
from rootfs_tools.export import OwnIds


class Cp(Flags):
    """Copy files between a container and the host."""

    command = "cp"
    archive: bool = flag("-a")
    follow_link: bool = flag("-L")
    quiet: bool = flag("-q")


def main(args: list[str], settings: Settings) -> int:
    """Copy; return 0. Raises MinirunError with status 1, as docker's."""
    flags = Cp(args)
    flags.takes(2)
    return as_runc(lambda: _copy(flags, settings))


def _copy(flags: Cp, settings: Settings) -> int:
    source, target = map(_parted, flags.args)
    if not (source[0] or target[0]):
        text = "must specify at least one container source"
        raise UsageError(text, f"NAME:PATH is a container's; {flags.args[0]} is the host's")
    for name, path in (source, target):
        if name and not path:
            raise UsageError(f"{name}: the path in the container is empty", f"{name}:/")
    if source[0] and target[0]:
        hint = f"minirun cp {flags.args[0]} - | minirun cp - {flags.args[1]}"
        raise UsageError("copying between containers is not supported", hint)
    if source[0]:
        _from_container(*source, target[1], flags, settings)
    else:
        _to_container(source[1], *target, flags, settings)
    if not flags.quiet and os.isatty(2) and target[1] != "-":
        say(f"copied to {flags.args[1]}")
    return 0


def _parted(text: str) -> tuple[str, str]:
    """Return the container and the path of an argument; "" and a path of the host.

    As with docker a path with a colon in it is the host's if it begins with / or . .
    """
    name, colon, path = text.partition(":")
    if text[:1] in ("/", ".") or not colon or not name:
        return "", text
    return name, path


def _container(name: str, settings: Settings) -> Container:
    return lookup.load(*roots.locate(settings, name))


def _from_container(name: str, path: str, target: str, flags: Cp, settings: Settings) -> None:
    """Copy to the host, or write an archive. Raises MinirunError, OSError."""
    container = _container(name, settings)
    if target == "-" and os.isatty(1):
        raise StateError("cowardly refusing to write an archive to a terminal", "redirect it")
    with ExitStack() as stack:
        entered = container_tree.become_root(container)
        linux = {} if entered else container.config.linux  # in there ids are the container's
        root = stack.enter_context(container_tree.seen(container, writable=False))
        source = copying.find(root, path, name, follow=flags.follow_link)
        stack.callback(os.close, source.fd)
        if target == "-":
            stream = stack.enter_context(open(1, "wb", closefd=False))
            copying.write_archive(source, OwnIds(stream, linux))
            return
        place = copying.on_the_host(target, source)
        stack.callback(place.root.close)
        change = copying.OutOf(linux, keep_owner=flags.archive and not entered)
        copying.copy(source, place, change)
    if change.devices:
        more = f" and {len(change.devices) - 1} more" if len(change.devices) > 1 else ""
        warn(f"devices are left out: {name}: {change.devices[0]}{more}")


def _to_container(source: str, name: str, path: str, flags: Cp, settings: Settings) -> None:
    """Copy from the host, or from an archive. Raises MinirunError, OSError."""
    container = _container(name, settings)
    owner = _user(container) if flags.archive else None
    with ExitStack() as stack:
        found = None
        if source != "-":
            found = copying.on_host(source, follow=flags.follow_link)
            stack.callback(os.close, found.fd)
        change = copying.with_owner(owner)
        if container_tree.become_root(container):
            change = copying.with_known_owner(owner or ((0, 0) if found else None))
        root = stack.enter_context(container_tree.seen(container, writable=True))
        target = copying.inside(root, path, name, found)
        namespace = stack.enter_context(container_tree.user_namespace(container))
        if found and namespace >= 0:
            copying.copy_as_root_of(namespace, found, target, owner)
        elif found:
            copying.copy(found, target, change)
        elif namespace >= 0:
            copying.read_archive_as_root_of(namespace, 0, target, owner)
        else:
            with open(0, "rb", closefd=False) as stream:
                copying.read_archive(stream, target, change)


def _user(container: Container) -> tuple[int, int]:
    """Return user and group of the container's command, as it counts."""
    user = container.config.process.get("user") or {}
    return user.get("uid", 0), user.get("gid", 0)
