"""OCI layouts made by hand, and what a tree is made of: for tests that compare with umoci."""

import functools
import gzip
import hashlib
import io
import json
import os
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from rootfs_tools import image_spec

COMPRESS = functools.partial(gzip.compress, mtime=0)
"""gzip without the time of day: the same content, the same digest."""
Members = list[tuple[str, bytes, dict[str, Any]]]
"""Of a layer: (name, type of tarfile, fields of TarInfo; `content` besides)."""


def member(
    name: str, kind: bytes = tarfile.REGTYPE, **fields: Any
) -> tuple[str, bytes, dict[str, Any]]:
    return name, kind, fields


def tar(*members: tuple[str, bytes, dict[str, Any]]) -> bytes:
    """Return an archive; all is of 2001 unless a member says otherwise."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, fields in members:
            info = tarfile.TarInfo(name)
            info.type, info.mtime = kind, 10**9
            info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
            content = fields.get("content", b"")
            info.size = len(content)
            for field, value in fields.items():
                if field != "content":
                    setattr(info, field, value)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


class LayoutFolder:
    """A layout of one image, `test`, with these layers; each may be compressed."""

    def __init__(
        self,
        path: Path,
        *layers: bytes,
        compress: Any = COMPRESS,
        history: bool = False,
        **config: Any,
    ) -> None:
        self.path = path
        self.name = path.name
        (path / "blobs/sha256").mkdir(parents=True)
        rows = [self.blob(compress(layer)) for layer in layers]
        document = {
            "os": "linux", "architecture": "amd64", "config": config,
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers],
            },
        }  # fmt: skip
        if history:
            document["history"] = [{"created_by": "a test"} for _ in layers]
        manifest = {
            "schemaVersion": 2, "mediaType": image_spec.MANIFESTS[0],
            "config": {"mediaType": image_spec.OCI_CONFIG}
            | self.blob(json.dumps(document).encode()),
            "layers": [{"mediaType": f"{image_spec.OCI_LAYER}+gzip"} | row for row in rows],
        }  # fmt: skip
        self.top = {"mediaType": image_spec.MANIFESTS[0]} | self.blob(json.dumps(manifest).encode())
        row = self.top | {"annotations": {"org.opencontainers.image.ref.name": "test"}}
        (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [row]}))
        self.manifest = manifest
        self.asked: list[str] = []
        """The digests of the layers that were fetched."""

    def blob(self, data: bytes) -> dict[str, Any]:
        """Store a blob, and return digest and size of its descriptor."""
        digest = hashlib.sha256(data).hexdigest()
        (self.path / "blobs/sha256" / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    # --- rootfs_tools.image_spec.Source

    def root(self) -> tuple[image_spec.Descriptor, bytes]:
        top = image_spec.Descriptor(self.top["mediaType"], self.top["digest"], self.top["size"])
        return top, self.document(top)

    def document(self, wanted: image_spec.Descriptor) -> bytes:
        return (self.path / "blobs" / wanted.digest.replace(":", "/")).read_bytes()

    @contextmanager
    def blob_at(self, wanted: image_spec.Descriptor, offset: int) -> Iterator[BinaryIO]:
        self.asked.append(wanted.digest)
        with open(self.path / "blobs" / wanted.digest.replace(":", "/"), "rb") as file:
            file.seek(offset)
            yield file


class FolderSource:
    """A layout's folder as a `Source`."""

    def __init__(self, folder: LayoutFolder) -> None:
        self.folder, self.name = folder, folder.name
        self.root, self.document = folder.root, folder.document

    def blob(self, wanted: image_spec.Descriptor, offset: int = 0) -> Any:
        return self.folder.blob_at(wanted, offset)


def umoci(folder: LayoutFolder, place: Path) -> Path:
    """Return the tree that umoci makes of a layout."""
    argv = ["umoci", "unpack", "--image", f"{folder.path}:test", str(place)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return place / "rootfs"


def listing(top: Path, *, times: bool = True) -> dict[str, tuple[Any, ...]]:
    """Return path → all that a file is, to its links: as numbers of the first path of each."""
    found: dict[str, tuple[Any, ...]] = {}
    inodes: dict[tuple[int, int], str] = {}
    for path in sorted([top, *top.rglob("*")], key=os.fsencode):
        info = os.lstat(path)
        name = os.path.relpath(path, top)
        content: object = ""
        if stat.S_ISREG(info.st_mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        elif stat.S_ISLNK(info.st_mode):
            content = os.readlink(path)
        elif not stat.S_ISDIR(info.st_mode):
            content = info.st_rdev
        attributes = {
            key: os.getxattr(path, key, follow_symlinks=False)
            for key in os.listxattr(path, follow_symlinks=False)
            if not key.startswith(("trusted.overlay.", "user.rootlesscontainers"))
        }
        first = inodes.setdefault((info.st_dev, info.st_ino), name)
        is_dir = stat.S_ISDIR(info.st_mode)
        found[name] = (
            stat.filemode(info.st_mode), info.st_uid, info.st_gid, content, attributes,
            "" if is_dir else first, info.st_mtime_ns if times else 0,
        )  # fmt: skip
    return found
