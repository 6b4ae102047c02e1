"""A stage of a build: its layers so far, how they are made, and what the history says of them."""

import io
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

from minirun.core.errors import ImageError
from minirun.core.rootfs.tree import remove_tree
from minirun.core.settings import Settings, unprivileged
from minirun.image.blobs import Blobs
from minirun.image.compression import DAMAGED, decompressed
from minirun.image.dockerfile.cache import BUILDS, Made, StepCache, over
from minirun.image.dockerfile.copying import LayerWriter, Ownership
from minirun.image.dockerfile.evaluate import Copy, MakeDirectory, Run, Work
from minirun.image.dockerfile.trees import FolderTree, LayerTree, Tree, expand, is_directory
from minirun.image.draft import DRAFT, hold
from minirun.image.layers import Layer, Layers
from minirun.image.oci import OCI_LAYER, Descriptor, History, Platform, digest_of
from minirun.image.tarfields import BLOCK
from minirun.image.unpack import unpack
from minirun.oci.image_user import in_layers
from minirun.running.build import step


class BuiltLayer(NamedTuple):
    """One layer: as an archive, and unpacked."""

    blob: Descriptor
    diff_id: str
    unpacked: Layer


class Stage:
    """What a stage has become so far; at the end, what it is."""

    def __init__(
        self, layers: "tuple[BuiltLayer, ...]" = (), config: Mapping[str, Any] | None = None,
        history: "tuple[History, ...]" = (), platform: Platform | None = None,
    ) -> None:  # fmt: skip
        """Begin with what the base image, or another stage, has."""
        self.layers = list(layers)
        self.config: Mapping[str, Any] = config or {}
        self.history = list(history)
        self.platform = platform
        self.author = ""

    @property
    def chain(self) -> str:
        """The chain id of all layers; "" for none."""
        return self.layers[-1].unpacked.chain_id if self.layers else ""

    def paths(self) -> "tuple[str, ...]":
        """Where the unpacked layers lie, lowest first."""
        return tuple(layer.unpacked.path for layer in self.layers)

    def tree(self) -> LayerTree:
        """Open the files that the layers show together. Raises OSError."""
        return LayerTree(self.paths())


class Workshop(NamedTuple):
    """What the steps of one build need."""

    settings: Settings
    store: str
    context: FolderTree
    origin: Callable[[str], Stage]
    """The stage or image of COPY --from."""
    host_network: bool
    use_cache: bool
    quiet: bool
    now: int
    """When the build has begun, nanoseconds since 1970; $SOURCE_DATE_EPOCH counts."""


class Outcome(NamedTuple):
    """The layer that a step has come to."""

    created: str
    is_new: bool
    """False: a build before has made it."""


def carry_out(work: Work, stage: Stage, shop: Workshop) -> Outcome | None:
    """Do a step, and put its layer on the stage; None: it needs no layer.

    Raises MinirunError, OSError.
    """
    if isinstance(work, Run):
        return _run(work, stage, shop)
    if isinstance(work, Copy):
        return _copy(work, stage, shop)
    return _make_directory(work, stage, shop)


def _run(work: Run, stage: Stage, shop: Workshop) -> Outcome:
    if not stage.layers:
        raise ImageError("RUN: there is nothing in the image yet", "COPY a program first")
    if work.network == "host" and not shop.host_network:
        raise ImageError("RUN --network=host: not allowed", "minirun build --network host")
    if work.network not in ("default", "none", "host"):
        raise ImageError(f"RUN --network={work.network}: not known", "default, none or host")
    host_network = shop.host_network and work.network != "none"
    key = digest_of(repr((stage.chain, "RUN", work, host_network)).encode("utf-8", "replace"))
    if found := _from_cache(key, stage, shop):
        return found
    with ExitStack() as stack:
        output = stack.enter_context(Blobs(shop.store).draft())
        mounts = tuple(_mount(row, shop.store, stack) for row in work.mounts)
        status = step.run(
            shop.settings,
            work,
            stage.paths(),
            mounts,
            output,
            host_network=host_network,
            quiet=shop.quiet,
        )
        if status:
            shown = " ".join(work.argv)
            text = f'process "{shown}" did not complete successfully: exit code: {status}'
            raise ImageError(text, "" if host_network else "a step has no network: --network host")
        return _add(key, output, stage, shop)


def _mount(row: Mapping[str, str], store: str, stack: ExitStack) -> step.Mount:
    """Return a mount of RUN --mount. Raises ImageError, OSError."""
    read_only = {"readonly", "ro"} & row.keys() and row.get("readonly", row.get("ro")) != "false"
    options: tuple[str, ...] = ("ro",) if read_only else ()
    if row["type"] == "tmpfs":
        size = (f"size={row['size']}",) if "size" in row else ()
        return step.Mount("", row["target"], (*options, *size))
    if row["type"] == "bind":
        raise ImageError("RUN --mount=type=bind: not known here", "COPY what the step needs")
    alone = row.get("sharing", "shared") != "shared"
    cache = StepCache(store).mount(row.get("id") or row["target"], alone=alone)
    folder = stack.enter_context(cache)
    ids = [_number(row.get(name, "0"), name, 10) for name in ("uid", "gid")]
    if not unprivileged():  # without root it is root's in the container as it is
        os.chown(folder, *ids)
    os.chmod(folder, _number(row.get("mode", "0755"), "mode", 8))
    return step.Mount(folder, row["target"], options)


def _number(text: str, name: str, base: int) -> int:
    try:
        return int(text, base) if text.isascii() and text.isdigit() else int("", base)
    except ValueError:
        raise ImageError(f"{name}={text}: not a number") from None


def _copy(work: Copy, stage: Stage, shop: Workshop) -> Outcome:
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
        found = [each for pattern in work.sources for each in expand(source, pattern)]
        archives = [each for each in found if work.unpacks and _is_archive(source, each.path)]
        for each in archives:
            writer.make_directories(work.target, whose)
            _unpack(source, each.path, work.target, writer, shop.store)
        rest = [each for each in found if each not in archives]
        writer.copy(source, rest, work.target, whose)
        key = digest_of(f"{stage.chain} COPY {writer.finish()}".encode())
        return _from_cache(key, stage, shop) or _add(key, output, stage, shop)


def _ownership(work: Copy, stage: Stage) -> Ownership:
    """Return what --chown and --chmod say. Raises MinirunError, OSError."""
    mode = _number(work.chmod, "--chmod", 8) if work.chmod else None
    if not work.chown:
        return Ownership(mode=mode)
    return Ownership(*_owner(work.chown, stage), mode)


def _owner(spec: str, stage: Stage) -> tuple[int, int]:
    """Return uid and gid; a number that has no entry in /etc/passwd is the group's number too.

    Raises MinirunError, OSError.
    """
    who, _, group = spec.partition(":")
    if not stage.layers and not (who + group).isdecimal():
        raise ImageError(f"{spec}: the image has no /etc/passwd yet", "use numbers")
    if not stage.layers:
        return int(who), int(group or who)
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
    os.makedirs(f"{store}/{BUILDS}", 0o700, exist_ok=True)
    with _scratch(f"{store}/{BUILDS}") as folder:
        with open(tree.open(path), "rb") as file:
            try:
                unpack(decompressed(file), folder)
            except DAMAGED as error:
                raise ImageError(f"{path} is damaged: {error}") from None
        with closing(FolderTree(folder)) as unpacked:
            writer.copy_directory(unpacked, "", target, Ownership())


@contextmanager
def _scratch(above: str) -> Iterator[str]:
    """Yield a directory that is gone afterwards; `image gc` removes those of dead builds."""
    folder = tempfile.mkdtemp(prefix=DRAFT, dir=above)
    held = hold(folder)
    try:
        yield folder
    finally:
        remove_tree(folder)
        os.close(held)


def _make_directory(work: MakeDirectory, stage: Stage, shop: Workshop) -> Outcome | None:
    """Make the working directory; if it is there the step has no layer."""
    with closing(stage.tree()) as below, Blobs(shop.store).draft() as output:
        writer = LayerWriter(output, below, shop.now)
        if not writer.make_directories(work.path, Ownership(*_owner(work.user or "0", stage))):
            return None
        key = digest_of(f"{stage.chain} WORKDIR {writer.finish()}".encode())
        return _from_cache(key, stage, shop) or _add(key, output, stage, shop)


def _from_cache(key: str, stage: Stage, shop: Workshop) -> Outcome | None:
    """Take the layer that a build before has made of this step; None if there is none."""
    found = StepCache(shop.store).find(key, stage.chain) if shop.use_cache else None
    if not found:
        return None
    put(found.diff_id, stage, shop.store)
    return Outcome(found.created, is_new=False)


def _add(key: str, output: io.BufferedRandom, stage: Stage, shop: Workshop) -> Outcome:
    """Take a new archive as a layer, and remember that this step has made it."""
    digest, _ = Blobs(shop.store).adopt(output)
    below = stage.chain
    put(digest, stage, shop.store)
    created = moment(shop.now)
    StepCache(shop.store).keep(key, below, Made(digest, created))
    return Outcome(created, is_new=True)


def moment(nanoseconds: int) -> str:
    """Return a time as the configuration has it: RFC 3339, in UTC."""
    return datetime.fromtimestamp(nanoseconds // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def put(diff_id: str, stage: Stage, store: str) -> None:
    """Put a layer of the store's, an archive that is not compressed, on top of a stage."""
    blob = Blobs(store).path(diff_id)
    below = [layer.unpacked for layer in stage.layers]
    made = Layers(store).ensure(over(stage.chain, diff_id), diff_id, blob, below)
    descriptor = Descriptor(OCI_LAYER, diff_id, os.path.getsize(blob))
    stage.layers.append(BuiltLayer(descriptor, diff_id, made))
