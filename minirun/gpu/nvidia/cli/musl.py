"""Images of musl, such as Alpine's: the driver's libraries and programs are made for glibc.

NVIDIA's stack puts the files in, and nvidia-smi then ends with "not found": its loader,
/lib64/ld-linux-x86-64.so.2, is not there. A layer that stands in for glibc (gcompat) is no help
either, since the driver's libraries need more of it.
"""

from __future__ import annotations

import os

from minirun.core.kernel.architecture import NATIVE
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.own_root import has
from minirun.gpu.edits import Edits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ADVICE = "take an image with glibc, such as debian or ubuntu"


def is_alpine(root: Root) -> bool:
    """Return True if the image is Alpine: the sign by which nvidia-ctk 1.20 knows musl."""
    return has(root, "/etc/alpine-release", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)


def misfit(root: Root, edits: Edits) -> str:
    """Say why none of the driver's libraries can be loaded in this root; "" if they can.

    An image of static programs has neither loader: nothing is said of it.
    """
    return _misfit(lambda paths: _has_one(root, paths), edits)


def misfit_of_layers(layers: tuple[str, ...], edits: Edits) -> str:
    """Say the same of an image's layers, which are not mounted yet. Raises OSError."""
    return _misfit(lambda paths: any(_layer_has_one(layer, paths) for layer in layers), edits)


def _misfit(has_one: Callable[[tuple[str, ...]], bool], edits: Edits) -> str:
    """Return the reason, from the loaders that the image has."""
    name, glibc = f"ld-musl-{NATIVE.musl}.so.1", NATIVE.loader
    # /lib may be a link, which another layer has
    if not has_one((f"/lib/{name}", f"/usr/lib/{name}")) or has_one((glibc, f"/usr{glibc}")):
        return ""
    if not any(".so." in mount.path for mount in edits.mounts):
        return ""
    return "the image is made for musl, the driver's files for glibc: programs cannot load them"


def _layer_has_one(layer: str, paths: tuple[str, ...]) -> bool:
    root = Root.at(layer)
    try:
        return _has_one(root, paths)
    finally:
        root.close()


def _has_one(root: Root, paths: tuple[str, ...]) -> bool:
    """Return True if one of these paths is in the root."""
    return any(has(root, path) for path in paths)
