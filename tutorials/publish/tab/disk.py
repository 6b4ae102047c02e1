"""The machine's disk and its initrd, as the emulator reads them.

The disk is a squashfs whose blocks are not compressed: the emulated processor would need longer to
unpack them than a browser. It is cut in parts, each compressed by zstd, which v86 fetches when the
machine reads there. A file that lies in two images stands on it once.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from backports import zstd

from tutorials.publish.tab.root import BOOT, GUEST, ordered

PART = 256 * 1024
"""Bytes of a part, unpacked; page/machine.js has the same number."""


def initrd(root: Path, work: Path) -> Path:
    """Make the initrd: busybox, the modules for the disk, guest/init."""
    tree = work / "initrd"
    for name in ("bin", "dev", "proc", "disk", "written", "root", "modules"):
        (tree / name).mkdir(parents=True)
    shutil.copy(root / "bin/busybox", tree / "bin")
    shutil.copy(GUEST / "init", tree)
    (tree / "init").chmod(0o755)
    (folder,) = (root / "lib/modules").iterdir()
    names = ordered(folder / "modules.dep", BOOT)
    for name in names:
        shutil.copy(folder / name, tree / "modules")
    (tree / "modules/order").write_text("\n".join(Path(name).name for name in names))
    out = work / "initrd.cpio"
    with open(out, "wb") as file:
        find = subprocess.run(["find", "."], cwd=tree, check=True, capture_output=True)
        subprocess.run(
            ["cpio", "--quiet", "--create", "--format=newc"], cwd=tree, check=True,
            input=find.stdout, stdout=file,
        )  # fmt: skip
    return out


def image(root: Path, work: Path) -> Path:
    """Make the disk of `root`: of whole parts."""
    out = work / "disk.img"
    subprocess.run(
        ["mksquashfs", root, out, "-quiet", "-no-progress", "-noappend", "-noI", "-noId", "-noD",
         "-noF", "-noX", "-no-fragments", "-b", "131072"],
        check=True,
    )  # fmt: skip
    size = -(-out.stat().st_size // PART) * PART
    with open(out, "r+b") as file:
        file.truncate(size)
    return out


def cut(image: Path, out: Path) -> None:
    """Write the parts of a disk, named as v86 asks for them: FIRST-END."""
    out.mkdir(parents=True)
    packer = zstd.ZstdCompressor(level=19)
    with open(image, "rb") as file:
        for start in range(0, image.stat().st_size, PART):
            packed = packer.compress(file.read(PART), mode=packer.FLUSH_FRAME)
            (out / f"part-{start}-{start + PART}.img.zst").write_bytes(packed)


def join(folder: Path, out: Path) -> None:
    """Write the disk whose parts `cut` has written: node cannot unpack them, a browser can."""
    with open(out, "wb") as file:
        for start in range(0, len([*folder.iterdir()]) * PART, PART):
            packed = (folder / f"part-{start}-{start + PART}.img.zst").read_bytes()
            file.write(zstd.decompress(packed))
