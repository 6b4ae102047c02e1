"""What RUN --mount puts into a step: copies of files, caches, memory, secrets, an agent's socket.

Nothing of the host's own tree is mounted. What a bind shows is a copy in a folder of the store: as
COPY would take it, without what .dockerignore leaves out, looked up inside of the context or the
stage; so no link leads out of it, and what the step writes there (rw) is gone afterwards.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from typing import NamedTuple

from minirun.core.errors import ImageError
from minirun.core.keeping.settings import unprivileged
from rootfs_tools.build import secrets
from rootfs_tools.build.container import StepMount
from rootfs_tools.build.secrets import id_of
from rootfs_tools.build.stage import Workshop
from rootfs_tools.dockerfile.cache import StepCache, scratch
from rootfs_tools.dockerfile.chmod import octal
from rootfs_tools.dockerfile.copying import LayerWriter, Ownership
from rootfs_tools.dockerfile.evaluate import PIPES, RunStep
from rootfs_tools.dockerfile.mounts import AGENT, SECRETS
from rootfs_tools.dockerfile.trees import FolderTree, Found, Tree, expand, is_directory
from rootfs_tools.unpack import unpack

MountFlag = Mapping[str, str]
"""Of one --mount: rootfs_tools.dockerfile.mounts."""
_FILE = "file"
_SOCKET = "SSH_AUTH_SOCK="
_OPTIONS = ("ro", "nosuid", "nodev", "noexec")


class Prepared(NamedTuple):
    """What a step gets."""

    mounts: tuple[StepMount, ...]
    env: tuple[str, ...]


def content_keys(work: RunStep, shop: Workshop) -> tuple[str, ...]:
    """Return what a step's result follows from beside its line: what is in its mounts.

    Secrets are no part of it, as with docker. Raises ImageError, OSError.
    """
    return tuple(_Source(row, shop).key() for row in work.mounts if _has_source(row))


def prepare(work: RunStep, shop: Workshop, stack: ExitStack) -> Prepared:
    """Make all that a step's mounts need; `stack` takes it away. Raises ImageError, OSError."""
    made: list[StepMount] = []
    env: list[str] = []
    agents = 0
    for row in work.mounts:
        if row["type"] == "secret":
            value = shop.secrets.read(row)
            if value is not None:
                made += _secret(row, value, env, stack)
        elif row["type"] == "ssh":
            target = row.get("target") or f"{AGENT}.{agents}"
            agents += 1
            if agent := shop.secrets.agent(row):
                path = stack.enter_context(secrets.forwarded(agent, row))
                made.append(StepMount(path, target, _OPTIONS[1:]))
                if not any(entry.startswith(_SOCKET) for entry in (*work.env, *env)):
                    env.append(_SOCKET + target)
        else:
            made.append(_MAKERS[row["type"]](row, shop, stack))
    if work.script:
        made.append(_program(work, shop, stack))
    return Prepared(tuple(made), tuple(env))


def _secret(row: MountFlag, value: bytes, env: list[str], stack: ExitStack) -> list[StepMount]:
    """Return the mount of a secret, if it is to be a file; as a variable it is put into `env`."""
    if "env" in row:
        env.append(f"{row['env'] or row['id']}={os.fsdecode(value)}")
        if not row.get("target"):
            return []
    target = row.get("target") or f"{SECRETS}/{os.path.basename(row['id'])}"
    path = stack.enter_context(secrets.in_memory(value, row))
    return [StepMount(path, target, _OPTIONS)]


def _tmpfs(row: MountFlag, shop: Workshop, stack: ExitStack) -> StepMount:
    size = (f"size={row['size']}",) if "size" in row else ()
    return StepMount("", row["target"], (*_read_only(row), *size))


def _bind(row: MountFlag, shop: Workshop, stack: ExitStack) -> StepMount:
    folder = stack.enter_context(scratch(shop.store))
    return StepMount(_Source(row, shop).copy(folder, shop), row["target"], _read_only(row))


def _cache(row: MountFlag, shop: Workshop, stack: ExitStack) -> StepMount:
    alone = row.get("sharing", "shared") != "shared"
    name = row.get("id") or row["target"]
    fill: Callable[[str], object] | None = None
    if _has_source(row):
        source = _Source(row, shop)
        name, fill = f"{name} {source.key()}", lambda folder: source.copy(folder, shop)
    folder = stack.enter_context(StepCache(shop.store).mount(name, alone=alone, fill=fill))
    if not unprivileged() and (not fill or {"uid", "gid"} & row.keys()):
        os.chown(folder, *(id_of(row.get(key, "0"), key) for key in ("uid", "gid")))
    if not fill or "mode" in row:
        os.chmod(folder, octal(row.get("mode", "0755"), "mode"))
    return StepMount(folder, row["target"], _read_only(row))


_MAKERS = {"tmpfs": _tmpfs, "bind": _bind, "cache": _cache}


def _program(work: RunStep, shop: Workshop, stack: ExitStack) -> StepMount:
    """Return the mount of a here-document that is a program of its own."""
    path = f"{stack.enter_context(scratch(shop.store))}/{_FILE}"
    with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(work.script)
    os.chmod(path, 0o755)
    assert work.argv[0].startswith(PIPES)
    return StepMount(path, work.argv[0], ("ro",))


def _read_only(row: MountFlag) -> tuple[str, ...]:
    return ("ro",) if row.get("readonly") else ()


def _has_source(row: MountFlag) -> bool:
    return row["type"] == "bind" or (row["type"] == "cache" and "from" in row)


class _Source:
    """The file or directory that a mount shows: of the context, or of a stage or an image."""

    def __init__(self, row: MountFlag, shop: Workshop) -> None:
        self._name = row.get("source", "")
        self._origin = shop.origin(row["from"]) if row.get("from") else None
        self._context = shop.context
        self._now = shop.now

    def key(self) -> str:
        """Return what differs if the content does. Raises ImageError, OSError."""
        if self._origin:
            return f"{self._origin.chain} {self._name}"
        with (
            open(os.devnull, "wb") as output, tempfile.TemporaryDirectory() as empty,
            closing(FolderTree(empty)) as below,
        ):  # fmt: skip
            writer = LayerWriter(output, below, self._now)
            self._write(self._context, writer)
            return writer.finish()

    def copy(self, folder: str, shop: Workshop) -> str:
        """Copy it into an empty folder; return the folder, or the file in it."""
        with ExitStack() as stack:
            tree: Tree = self._context
            if self._origin:
                tree = stack.enter_context(closing(self._origin.tree()))
            output = stack.enter_context(tempfile.TemporaryFile(dir=folder))
            below = stack.enter_context(closing(FolderTree(folder)))
            writer = LayerWriter(output, below, self._now)
            found = self._write(tree, writer)
            writer.finish()
            output.seek(0)
            unpack(output, folder)
            if not is_directory(tree, found.path):
                return f"{folder}/{_FILE}"
            info = tree.stat(found.path)
            if info:
                owner = (info.st_uid, info.st_gid) if self._origin else (0, 0)
                if not unprivileged():
                    os.chown(folder, *owner)
                os.chmod(folder, info.st_mode & 0o1777)
        return folder

    def _write(self, tree: Tree, writer: LayerWriter) -> Found:
        """Write what it is; a file is called `file`, whatever its name."""
        (found,) = expand(tree, [_escaped(self._name) or "/"])
        whose = Ownership() if self._origin else Ownership(0, 0, special=False)
        if unprivileged():
            whose = whose._replace(uid=0, gid=0)
        if is_directory(tree, found.path):
            writer.copy_directory(tree, found.path, "/", whose)
        else:
            writer.copy(tree, [Found(_FILE, found.path)], f"/{_FILE}", whose)
        return found


def _escaped(name: str) -> str:
    """Refuse a pattern: a mount has one source. Raises ImageError."""
    if set("*?[") & set(name):
        raise ImageError(f"RUN --mount: source={name}: a pattern, and not one file")
    return name
