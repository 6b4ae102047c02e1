"""Where the files of an image are that the tests take for their bundles."""

from __future__ import annotations

import os
from pathlib import Path

from rootfs_tools import catalogue

STORE = os.environ.get("MINIRUN_STORE", "/var/lib/minirun")


def layer_of(name: str, store: str | Path = STORE) -> Path:
    """Return the directory of an image's lowest layer."""
    return Path(catalogue.resolve(str(store), name).layers[0])
