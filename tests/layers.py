"""Where the files of an image are that the tests take for their bundles."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rootfs_tools import catalogue

STORE = os.environ.get("MINIRUN_STORE", "/var/lib/minirun")


def layer_of(name: str, store: str | Path = STORE) -> Path:
    """Return the directory of an image's lowest layer."""
    return Path(catalogue.resolve(str(store), name).layers[0])


def copy_layer(source: str | Path, target: str | Path) -> Path:
    """Copy a layer into a new folder: names, contents, modes and links; the times are of today.

    shutil.copytree asks for times and attributes of each link as well, and busybox has 267 links.
    """
    os.mkdir(target)
    for entry in os.scandir(source):
        path = f"{target}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), path)
        elif entry.is_dir():
            copy_layer(entry.path, path)
        else:
            shutil.copy(entry.path, path)
    shutil.copymode(source, target)
    return Path(target)
