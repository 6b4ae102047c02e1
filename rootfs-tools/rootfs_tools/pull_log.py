"""A pull as events of the log: which layers were fetched, verified and unpacked, and why.

A run that pulls has no container yet, and so no file to write to: :class:`PullLog` keeps the lines
in memory until the container's log is open. They stand before stage 1, with the times at which
things happened.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from minirun.core import events
from rootfs_tools.take import LayerObserver, LayerStep


class PullLog:
    """The events of a pull for the container `container_id`, as lines of its log."""

    def __init__(self, container_id: str) -> None:
        self._fd = os.memfd_create("pull", os.MFD_CLOEXEC)
        events.open_log(f"/proc/self/fd/{self._fd}", container_id)

    def close(self) -> bytes:
        """Return the lines; later events go nowhere."""
        events.close_log()
        with open(self._fd, "rb") as file:
            file.seek(0)
            return file.read()


@contextmanager
def logged(name: str, why: str, inner: LayerObserver) -> Iterator[LayerObserver]:
    """Write the events of pulling the image `name`; pass each step on to `inner` too."""
    events.emit("note", "pull image", {"image": name}, why=why)
    begin = events.now()
    layers = _PulledLayers(inner)
    try:
        yield layers.notify
    except Exception as error:
        args: dict[str, object] = {"image": name, "error": str(error)}
        events.emit("note", "pull failed", args, ret=-1, start=begin)
        raise
    args = {"image": name, "layers": len(layers.done)}
    why = "all its layers are here: from now on the name means this image"
    events.emit("note", "image pulled", args, start=begin, why=why)


class _PulledLayers:
    """The layers of one pull; several threads report their steps."""

    def __init__(self, inner: LayerObserver) -> None:
        self._inner = inner
        self.done: set[str] = set()
        """Digests of those that are in the store."""
        self._began: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def notify(self, step: LayerStep) -> None:
        """Write an event for a step, if one of its kind is told; `inner` gets all."""
        self._inner(step)
        with self._lock:
            self._write(step)

    def _write(self, step: LayerStep) -> None:
        key, layer = (step.kind, step.digest), step.digest[7:19]
        args = {"layer": layer, "bytes": step.size, "digest": step.digest}
        if step.kind == "pulling" and key not in self._began:
            self._began[key] = events.now()
            here = f"; {step.done} bytes of it are here" if step.done else ""
            events.emit("note", "pull layer", args, why=f"it is not in the store{here}")
        elif step.kind == "unpacking":
            self._began[key] = events.now()
        elif step.kind == "exists":
            events.emit("note", "layer exists", args, why="its archive is in the store")
        elif step.kind == "verified":
            why = "its bytes have the size and the digest that the manifest names"
            self._end("layer verified", args, "pulling", why)
        elif step.kind == "done":
            self.done.add(step.digest)
            why = "as OverlayFS wants it; its content has the diff_id of the image's configuration"
            self._end("layer unpacked", args, "unpacking", why)

    def _end(self, name: str, args: dict[str, object], kind: str, why: str) -> None:
        """Write the end of what began; nothing if it did not: another process has done it."""
        begin = self._began.pop((kind, str(args["digest"])), None)
        if begin is not None:
            events.emit("note", name, args, start=begin, why=why)
