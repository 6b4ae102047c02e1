"""A stage of a build: its layers so far, how they are made, and what the history says of them."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from minirun.core.keeping.settings import Settings
from rootfs_tools import image_spec
from rootfs_tools.archives.saving import SavedSource, collected
from rootfs_tools.blobs import Blobs
from rootfs_tools.dockerfile.cache import CachedStep, StepCache, over
from rootfs_tools.dockerfile.trees import FolderTree, LayerTree
from rootfs_tools.image_spec import OCI_LAYER, Descriptor, History, Platform
from rootfs_tools.layers import Layer, Layers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.image.store import Image
    from rootfs_tools.build.network import BuildNetwork
    from rootfs_tools.build.secrets import Secrets


class BuiltLayer(NamedTuple):
    """One layer: as an archive, and unpacked."""

    blob: Descriptor
    diff_id: str
    unpacked: Layer


class BuildStage:
    """What a stage has become so far; at the end, what it is."""

    def __init__(
        self, layers: tuple[BuiltLayer, ...] = (), config: Mapping[str, Any] | None = None,
        history: tuple[History, ...] = (), platform: Platform | None = None,
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

    def paths(self) -> tuple[str, ...]:
        """Where the unpacked layers lie, lowest first."""
        return tuple(layer.unpacked.path for layer in self.layers)

    def tree(self) -> LayerTree:
        """Open the files that the layers show together. Raises OSError."""
        return LayerTree(self.paths())


def stage_of(store: str, image: Image) -> BuildStage:
    """Return an image of the store as a stage. Raises ImageError, OSError."""
    with collected(store, [image.name]) as found:
        source = SavedSource(found[0], image.name)
        config = image_spec.parse_config(found[0].config)
        layers: list[BuiltLayer] = []
        for layer in found[0].layers:
            blob = Blobs(store).fetch(source, layer.descriptor)
            chain = layers[-1].unpacked.chain_id if layers else ""
            below = [each.unpacked for each in layers]
            made = Layers(store).ensure(over(chain, layer.diff_id), layer.diff_id, blob, below)
            layers.append(BuiltLayer(layer.descriptor, layer.diff_id, made))
    return BuildStage(
        tuple(layers), config.raw.get("config") or {}, config.history, config.platform
    )


class Workshop(NamedTuple):
    """What the steps of one build need."""

    settings: Settings
    store: str
    context: FolderTree
    origin: Callable[[str], BuildStage]
    """The stage or image of COPY --from."""
    network: BuildNetwork
    use_cache: bool
    quiet: bool
    now: int
    """When the build has begun, nanoseconds since 1970; $SOURCE_DATE_EPOCH counts."""
    secrets: Secrets
    """What --secret and --ssh give."""


class StepLayer(NamedTuple):
    """The layer that a step has come to."""

    created: str
    is_new: bool
    """False: a build before has made it."""


def from_cache(key: str, stage: BuildStage, shop: Workshop) -> StepLayer | None:
    """Take the layer that a build before has made of this step; None if there is none."""
    found = StepCache(shop.store).find(key, stage.chain) if shop.use_cache else None
    if not found:
        return None
    put(found.diff_id, stage, shop.store)
    return StepLayer(found.created, is_new=False)


def add(key: str, output: io.BufferedRandom, stage: BuildStage, shop: Workshop) -> StepLayer:
    """Take a new archive as a layer, and remember that this step has made it."""
    digest, _ = Blobs(shop.store).adopt(output)
    below = stage.chain
    put(digest, stage, shop.store, is_new=True)
    created = moment(shop.now)
    StepCache(shop.store).keep(key, below, CachedStep(digest, created))
    return StepLayer(created, is_new=True)


def moment(nanoseconds: int) -> str:
    """Return a time as the configuration has it: RFC 3339, in UTC."""
    return datetime.fromtimestamp(nanoseconds // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def put(diff_id: str, stage: BuildStage, store: str, *, is_new: bool = False) -> None:
    """Put a layer of the store's, an archive that is not compressed, on top of a stage.

    If a step has just made it anew, an older one that is damaged is unpacked again.
    """
    blob = Blobs(store).path(diff_id)
    below = [layer.unpacked for layer in stage.layers]
    made = Layers(store).ensure(over(stage.chain, diff_id), diff_id, blob, below, mend=is_new)
    descriptor = Descriptor(OCI_LAYER, diff_id, os.path.getsize(blob))
    stage.layers.append(BuiltLayer(descriptor, diff_id, made))
