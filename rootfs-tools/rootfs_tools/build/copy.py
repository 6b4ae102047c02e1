"""COPY, ADD and WORKDIR: layers that are made without a container."""

import os
from contextlib import ExitStack, closing

from minirun.core.errors import ImageError
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.settings import unprivileged
from minirun.oci.image_user import in_layers
from minirun.oci.user import MAX_ID
from rootfs_tools.blobs import Blobs
from rootfs_tools.build.stage import BuildStage, StepLayer, Workshop, add, from_cache
from rootfs_tools.compression import DAMAGED, decompressed
from rootfs_tools.dockerfile.cache import scratch
from rootfs_tools.dockerfile.chmod import change_of
from rootfs_tools.dockerfile.copying import LayerWriter, Ownership
from rootfs_tools.dockerfile.evaluate import Copy, MakeDirectory
from rootfs_tools.dockerfile.trees import FolderTree, Tree, expand, is_directory
from rootfs_tools.image_spec import digest_of
from rootfs_tools.tar.fields import BLOCK
from rootfs_tools.unpack import unpack


def copy(work: Copy, stage: BuildStage, shop: Workshop) -> StepLayer:
    """Copy files, and put the layer on the stage. Raises MinirunError, OSError."""
    given = _ownership(work, stage)
    with ExitStack() as stack:
        source: Tree = shop.context
        if work.origin:
            source = stack.enter_context(closing(shop.origin(work.origin).tree()))
        below = stack.enter_context(closing(stage.tree()))
        output = stack.enter_context(Blobs(shop.store).draft())
        writer = LayerWriter(output, below, shop.now)
        whose = given
        if given.uid is None and (not work.origin or unprivileged()):
            whose = whose._replace(uid=0, gid=0)
        if not work.origin:
            whose = whose._replace(special=False)
        writer.exclude(work.excludes)
        if work.parents:
            for each in work.sources:
                writer.copy_parents(source, each, work.target, whose)
        else:
            _copy(work, source, writer, whose, shop.store)
        for name, content in work.documents:
            writer.write(name, content, work.target, given)
        key = digest_of(f"{stage.chain} COPY {writer.finish()}".encode())
        return from_cache(key, stage, shop) or add(key, output, stage, shop)


def _copy(work: Copy, source: Tree, writer: LayerWriter, whose: Ownership, store: str) -> None:
    """Copy all sources; ADD unpacks those that are archives. Raises ImageError, OSError."""
    count = len(work.sources) + len(work.documents)
    found = writer.kept(source, expand(source, work.sources, alone=count < 2))
    archives = [each for each in found if work.unpacks and _is_archive(source, each.path)]
    for each in archives:
        writer.make_directories(work.target, whose)
        _unpack(source, each.path, work.target, writer, store)
    rest = [each for each in found if each not in archives]
    writer.copy(source, rest, work.target, whose)


def _ownership(work: Copy, stage: BuildStage) -> Ownership:
    """Return what --chown and --chmod say. Raises MinirunError, OSError."""
    mode = change_of(work.chmod) if work.chmod else None
    if not work.chown:
        return Ownership(mode=mode)
    return Ownership(*_owner(work.chown, stage), mode)


def _owner(spec: str, stage: BuildStage) -> tuple[int, int]:
    """Return uid and gid; a number that has no entry in /etc/passwd is the group's number too.

    Raises MinirunError, OSError.
    """
    who, _, group = spec.partition(":")
    if not stage.layers:
        uid, gid = whole(who, 0, MAX_ID), whole(group or who, 0, MAX_ID)
        if uid is None or gid is None:
            raise ImageError(f"{spec:.60}: the image has no /etc/passwd yet", "use numbers")
        return uid, gid
    user = in_layers(spec, stage.paths())
    is_unknown = not user.name and not group
    return user.uid, user.uid if is_unknown else user.gid


def _is_archive(tree: Tree, path: str) -> bool:
    """Return True for a file that is a tar archive, perhaps a compressed one."""
    if is_directory(tree, path):
        return False
    try:
        with open(tree.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            return decompressed(file).read(BLOCK)[257:262] == b"ustar"
    except (*DAMAGED, ImageError, OSError):
        return False


def _unpack(tree: Tree, path: str, target: str, writer: LayerWriter, store: str) -> None:
    """Copy what is in an archive, as its owners'. Raises ImageError, OSError."""
    with scratch(store) as folder:
        with open(tree.open(path), "rb") as file:
            try:
                unpack(decompressed(file), folder)
            except DAMAGED as error:
                raise ImageError(f"{path} is damaged: {error}") from None
        with closing(FolderTree(folder)) as unpacked:
            writer.copy_directory(unpacked, "", target, Ownership())


def make_directory(work: MakeDirectory, stage: BuildStage, shop: Workshop) -> StepLayer | None:
    """Make the working directory; if it is there the step has no layer."""
    with closing(stage.tree()) as below, Blobs(shop.store).draft() as output:
        writer = LayerWriter(output, below, shop.now)
        if not writer.make_directories(work.path, Ownership(*_owner(work.user or "0", stage))):
            return None
        key = digest_of(f"{stage.chain} WORKDIR {writer.finish()}".encode())
        return from_cache(key, stage, shop) or add(key, output, stage, shop)
