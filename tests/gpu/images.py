"""A store of a test's own, with an image whose config and files it chooses."""

import json
import os
import shutil
from pathlib import Path

BUSYBOX = "/bin/busybox"


def make(store: Path, name: str, env: tuple[str, ...] = ()) -> Path:
    """Make the image `name` in `store`; return its one layer: busybox, and an empty /etc."""
    image = store / "images" / name
    layer = image / "layers/0"
    for folder in ("bin", "etc", "usr/bin", "usr/lib", "proc", "sys", "dev", "tmp"):
        (layer / folder).mkdir(parents=True)
    shutil.copy(BUSYBOX, layer / "bin/busybox")
    for tool in ("sh", "ls", "cat", "sleep", "true", "echo", "env", "readlink", "grep"):
        os.symlink("busybox", layer / "bin" / tool)
    details = {
        "name": name, "tag": "latest", "origin": "made by a test", "digest": "sha256:0",
        "layers": ["layers/0"], "env": [*env], "entrypoint": [], "cmd": ["sh"],
        "workdir": "/", "user": "",
    }  # fmt: skip
    (image / "image.json").write_text(json.dumps(details))
    return layer
