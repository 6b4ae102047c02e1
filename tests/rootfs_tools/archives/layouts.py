"""OCI layouts that tests write by hand: right ones, and ones with one thing wrong."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from minirun.core.kernel.architecture import NATIVE
from rootfs_tools.image_spec import MANIFESTS, OCI_CONFIG, OCI_LAYER

REF_NAME = "org.opencontainers.image.ref.name"


class Blobs:
    """The blobs of a layout in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "blobs" / "sha256").mkdir(parents=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def put(self, data: bytes, media_type: str) -> dict[str, Any]:
        """Store a blob, and return its descriptor."""
        name = hashlib.sha256(data).hexdigest()
        (self.folder / "blobs" / "sha256" / name).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{name}", "size": len(data)}

    def put_json(self, document: object, media_type: str) -> dict[str, Any]:
        """Store a document, and return its descriptor."""
        return self.put(json.dumps(document).encode(), media_type)

    def image(self, *layers: bytes, config: dict[str, Any] | None = None) -> dict[str, Any]:
        """Store an image of these tar archives, and return the descriptor of its manifest."""
        diff_ids = ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]
        document = {
            "os": "linux", "architecture": NATIVE.go,
            "config": config or {}, "rootfs": {"type": "layers", "diff_ids": diff_ids},
        }  # fmt: skip
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFESTS[0],
            "config": self.put_json(document, OCI_CONFIG),
            "layers": [self.put(layer, OCI_LAYER) for layer in layers],
        }
        return self.put_json(manifest, MANIFESTS[0])

    def index(self, **tags: dict[str, Any]) -> None:
        """Write index.json: tag → descriptor."""
        rows = [row | {"annotations": {REF_NAME: tag}} for tag, row in tags.items()]
        document = {"schemaVersion": 2, "manifests": rows}
        (self.folder / "index.json").write_text(json.dumps(document))


def layer(*members: tuple[str, bytes]) -> bytes:
    """Return a tar archive of plain files; a name that ends with / is a directory."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.mode, info.size = 0o755, len(data)
            info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            tar.addfile(info, io.BytesIO(data))
    return stream.getvalue()
