"""busybox as an image that every engine can load, made from minirun's own store.

An archive holds an image in two forms, each enough by itself: OCI's layout (image-spec,
image-layout.md), which ctr and podman load, and `docker save`'s manifest.json, which dockerd loads.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from layers import layer_of
from minirun.core.kernel.architecture import NATIVE

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LAYER, CONFIG, MANIFEST = (
    f"application/vnd.oci.image.{kind}"
    for kind in ("layer.v1.tar", "config.v1+json", "manifest.v1+json")
)


def archive(
    target: Path,
    name: str,
    *,
    cmd: tuple[str, ...] = ("sh",),
    layer: bytes = b"",
    annotations: dict[str, str] | None = None,
    **config: Any,
) -> Path:
    """Write busybox, or another `layer`, as the image `name` (with a tag) to the tar `target`.

    `annotations` are the manifest's: podman and CRI-O copy them into config.json.
    """
    layer = layer or busybox()
    more = {"Env": [PATH], "Cmd": list(cmd), **config}
    diff = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    image = _json(
        {
            "architecture": NATIVE.go, "os": "linux", "config": more,
            "rootfs": {"type": "layers", "diff_ids": [diff]},
            "history": [{"created_by": "busybox"}],
        }
    )  # fmt: skip
    blobs = [layer, image]
    manifest = _json(
        {
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, image), "layers": [_descriptor(LAYER, layer)],
            "annotations": annotations or {},
        }
    )  # fmt: skip
    blobs.append(manifest)
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    index = {
        "schemaVersion": 2,
        "manifests": [_descriptor(MANIFEST, manifest) | {"annotations": names}],
    }
    saved = [{"Config": _path(image), "RepoTags": [name], "Layers": [_path(layer)]}]
    with tarfile.open(target, "w") as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        for blob in blobs:
            _add(tar, _path(blob), blob)
        _add(tar, "index.json", _json(index))
        _add(tar, "manifest.json", _json(saved))
    return target


FILES = {
    "./etc/passwd": "root:x:0:0:root:/root:/bin/sh\nmaria:x:1000:1000::/home/maria:/bin/sh\n",
    "./etc/group": "root:x:0:\nmaria:x:1000:\naudio:x:29:maria\n",
    "./etc/motd": "from the image\n",
    "./bin/noexec": "#!/bin/sh\n",
}
"""Added to busybox's: a user, a file to read, and one that nobody may run."""


def busybox(more: Callable[[tarfile.TarFile], None] = lambda tar: None) -> bytes:
    """A layer with busybox and FILES in it; `more` adds what a test wants besides."""
    source = layer_of("busybox")
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w") as tar:
        tar.add(source, ".", filter=lambda member: None if member.name in FILES else member)
        for name, text in FILES.items():
            _add(tar, name, text.encode())
        more(tar)
    return memory.getvalue()


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _path(blob: bytes) -> str:
    return f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}"


def _descriptor(kind: str, blob: bytes) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(blob).hexdigest()}"
    return {"mediaType": kind, "digest": digest, "size": len(blob)}
