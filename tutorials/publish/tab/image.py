"""Puts a tree of Debian's packages into the store as the image `ubuntu`, in the machine's root.

Ubuntu has had no release for i386 since 18.04. The image's origin says what it is.
"""

from __future__ import annotations

import os
import sys
import tempfile

from minirun.core.keeping import places
from rootfs_tools.made import NewImage, epoch, source_of
from rootfs_tools.recipe.bootstrap import os_release
from rootfs_tools.take import take
from rootfs_tools.tar.pack import pack_tree

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def main(tree: str) -> None:
    """Make it."""
    name = os_release(tree)["PRETTY_NAME"]
    with tempfile.TemporaryFile() as layer:
        pack_tree(tree, layer)
        made = NewImage(
            origin=f"not Ubuntu: {name} for i386, by mmdebstrap, under the name ubuntu",
            created=epoch(lambda: os.stat(f"{tree}/etc/debian_version").st_mtime),
            created_by="mmdebstrap --variant=minbase --architectures=i386",
            config={"Env": [PATH], "Cmd": ["bash"]},
            layer=layer,
        )
        image = take(places.STORE, "ubuntu", source_of(made))
    print(f"{image.name}  {image.digest[:19]}  {image.origin}")


if __name__ == "__main__":
    main(sys.argv[1])
