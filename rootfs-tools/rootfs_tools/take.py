"""From a source to an image in the store: fetch, verify, unpack, give it its name.

The manifest is chosen by platform; its layers are fetched side by side, each checked against its
digest, and unpacked lowest first, each checked against the configuration's diff_id. image.json
comes last, by one rename, and what had the name before keeps its layers until `image gc`: a
container may be using them. So SIGKILL at any moment leaves the store as it was, and some blobs,
which the next one goes on with.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import NamedTuple

from minirun.core.errors import ImageError
from minirun.core.kernel.architecture import NARROW, NATIVE, ROWS
from minirun.core.rootfs.tree import remove_tree
from minirun.image import store as shelf
from rootfs_tools import catalogue, durable, image_spec
from rootfs_tools import choose as choosing
from rootfs_tools.blobs import Blobs
from rootfs_tools.draft import DRAFT, locked
from rootfs_tools.grammar import new_name
from rootfs_tools.layers import Layer, Layers

THREADS = 4
"""Layers that are fetched at the same time."""


class LayerStep(NamedTuple):
    """What is being done, for a view: `kind` is pulling, exists, verified, unpacking or done.

    Of a push: pushing, pushed, present (in the registry), mounted (from another repository there).
    """

    kind: str
    digest: str
    done: int = 0
    """Bytes that are here."""
    size: int = 0


LayerObserver = Callable[[LayerStep], None]


def this_platform() -> image_spec.Platform:
    """Return what this machine runs."""
    return image_spec.Platform("linux", NATIVE.go, NATIVE.variant)


def platform_of(text: str) -> image_spec.Platform:
    """Return the platform that --platform names: linux/arm64/v8, or arm64. Raises ImageError."""
    parts = text.lower().split("/")
    parts = parts if len(parts) > 1 else ["linux", *parts]
    if not 2 <= len(parts) <= 3 or not all(part.isalnum() for part in parts):
        raise ImageError(f"{text!r} is no platform", "as in linux/amd64 or linux/arm64/v8")
    return image_spec.Platform(*parts)


def check_runs(text: str) -> None:
    """Raise ImageError if no program of the platform that --platform names can be executed here.

    Other processors' can where an emulator is registered, as QEMU's under its usual name:
    binfmt_misc(5).
    """
    wanted = platform_of(text)
    name = next((row.qemu for row in ROWS if row.go == wanted.architecture), wanted.architecture)
    emulated = os.path.exists(f"/proc/sys/fs/binfmt_misc/qemu-{name}")
    own = (NATIVE.go, NARROW.go if NARROW else NATIVE.go)
    if wanted.system != "linux" or not (wanted.architecture in own or emulated):
        what = f"--platform {text}: this machine executes programs of {this_platform()}"
        raise ImageError(what, "leave it out; minirun pull --platform fetches, and runs nothing")


def take(
    store: str,
    reference: str,
    source: image_spec.Source,
    platform: image_spec.Platform | None = None,
    notify: LayerObserver | None = None,
    *,
    mend: bool = False,
) -> shelf.Image:
    """Bring the image of `source` into the store under the name `reference`, and return it.

    `mend`: of its layers those that are here are compared with what was stored, and unpacked again
    if they are damaged. It takes as long as to read all their files. Raises ImageError; then the
    name means what it meant before.
    """
    store = os.path.abspath(store)
    wanted = new_name(reference)
    try:
        with using(store):
            image = _Taken(store, source, notify or (lambda _: None), mend=mend).take(platform)
            _name(store, shelf.directory_name(wanted), {
                "name": wanted.familiar(), "tag": wanted.tag, **image,
            })  # fmt: skip
    except OSError as error:
        raise shelf.failure(error, f"storing {reference}") from None
    return catalogue.resolve(store, str(wanted))


def using(store: str, how: int = fcntl.LOCK_SH) -> AbstractContextManager[None]:
    """Keep `image gc` away while blobs and layers are made that no image names yet."""
    folder = f"{store}/blobs"
    os.makedirs(folder, 0o700, exist_ok=True)
    by = "a build, a pull or another command that works in this store"
    return locked(f"{folder}/.lock", how, by)


class _Kept:
    """A `Source` whose documents are kept in the store: what is there is not asked for again."""

    def __init__(self, source: image_spec.Source, blobs: Blobs) -> None:
        self.name, self.blob = source.name, source.blob
        self._source, self._blobs = source, blobs
        self._root = source.root()

    def root(self) -> tuple[image_spec.Descriptor, bytes]:
        """Return the index or manifest that the reference names."""
        return self._root

    def document(self, wanted: image_spec.Descriptor) -> bytes:
        """Return an index, manifest or configuration. Raises ImageError, OSError."""
        self._blobs.discard_damaged(wanted)
        if self._blobs.has(wanted.digest):
            return self._blobs.document(wanted.digest)
        is_root = wanted == self._root[0]
        data = self._root[1] if is_root else choosing.document(self._source, wanted)
        choosing.check(self.name, wanted, data)
        self._blobs.put(data)
        return data


class _Taken:
    """One image on its way into the store."""

    def __init__(
        self, store: str, source: image_spec.Source, notify: LayerObserver, *, mend: bool
    ) -> None:
        self._source, self._notify, self._mend = source, notify, mend
        self._blobs, self._layers = Blobs(store), Layers(store)

    def take(self, platform: image_spec.Platform | None) -> dict[str, object]:
        """Fetch and unpack; return what image.json is to hold."""
        source = _Kept(self._source, self._blobs)
        root, _ = source.root()
        source.document(root)
        exact = bool(platform) or root.media_type in image_spec.INDEXES
        chosen = choosing.choose(source, platform or this_platform(), exact=exact)
        manifest, config = chosen.manifest, chosen.config
        if platform and not choosing.fits(config.platform, platform):
            raise choosing.no_platform(platform, f"the image is for {config.platform}")
        layers = self._unpacked(manifest, config)
        return {
            "origin": source.name, "digest": root.digest, "manifest": chosen.descriptor.digest,
            "id": manifest.config.digest,
            "size": sum(layer.size for layer in layers),
            "architecture": config.platform.architecture, "created": config.created,
            "layers": [layer.chain_id for layer in layers], "env": list(config.env),
            "entrypoint": list(config.entrypoint), "cmd": list(config.cmd),
            "workdir": config.workdir or "/", "user": config.user,
            "ports": list(config.ports), "volumes": list(config.volumes),
            "stop_signal": config.stop_signal,
            "labels": dict(config.labels), "healthcheck": dict(config.healthcheck),
        }  # fmt: skip

    def _unpacked(
        self, manifest: image_spec.Manifest, config: image_spec.ImageConfig
    ) -> list[Layer]:
        """Fetch the layers side by side, and unpack them one after the other."""
        chains = image_spec.chain_ids(config.diff_ids)
        found: list[Layer] = []
        with ThreadPoolExecutor(THREADS) as pool:
            # of a layer that is unpacked the archive may be gone: a run needs the layer alone
            fetched = [pool.submit(self._fetch, each) for each in manifest.layers]
            try:
                for row in zip(chains, config.diff_ids, fetched, manifest.layers, strict=True):
                    found.append(self._unpack(*row, below=found))
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return found

    def _fetch(self, layer: image_spec.Descriptor) -> str:
        self._blobs.discard_damaged(layer, thorough=False)
        if self._blobs.has(layer.digest):
            self._notify(LayerStep("exists", layer.digest, layer.size, layer.size))
            return self._blobs.path(layer.digest)

        def progress(done: int) -> None:
            self._notify(LayerStep("pulling", layer.digest, done, layer.size))

        path = self._blobs.fetch(self._source, layer, progress)
        self._notify(LayerStep("verified", layer.digest, layer.size, layer.size))
        return path

    def _unpack(
        self,
        chain_id: str,
        diff_id: str,
        fetched: Future[str],
        layer: image_spec.Descriptor,
        *,
        below: list[Layer],
    ) -> Layer:
        def begins() -> None:
            self._notify(LayerStep("unpacking", layer.digest, layer.size, layer.size))

        def ensure(archive: str) -> Layer:
            mend = self._mend
            return self._layers.ensure(chain_id, diff_id, archive, below, begins, mend=mend)

        archive = fetched.result()
        try:
            made = ensure(archive)
        except ImageError:
            if not self._blobs.discard_damaged(layer):
                raise
            made = ensure(self._fetch(layer))
        self._notify(LayerStep("done", layer.digest, layer.size, layer.size))
        return made


def _name(store: str, name: str, details: dict[str, object]) -> None:
    """Write image.json: from now on the name means this image. Raises OSError.

    A new name is given to the directory as a whole, so none is ever seen without its record. Of an
    image that is there the record alone is replaced.
    """
    images = catalogue.make_store(store)
    target = f"{images}/{name}"
    with locked(images, fcntl.LOCK_SH):
        draft = tempfile.mkdtemp(prefix=DRAFT, dir=images)
        try:
            with open(f"{draft}/{shelf.RECORD}", "w", encoding="utf-8") as file:
                json.dump(details, file, indent=1)
            try:
                durable.rename(draft, target)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # rename(2): either one
                    raise
                durable.rename(f"{draft}/{shelf.RECORD}", f"{target}/{shelf.RECORD}")
        finally:
            remove_tree(draft)
