"""The folder of the page: what a browser reads, the disk's parts, the saved state, the licences."""

from __future__ import annotations

import json
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Any

from backports import zstd

from minirun import __version__
from tutorials.publish.notebooks import ROOT
from tutorials.publish.tab import disk, root

HERE = Path(__file__).parent
SIGN = "minirun tab 1 "
"""What a state begins with: page/state.js reads it."""
FROM_NPM = {
    "v86": ("v86", ("build/libv86.mjs", "build/v86.wasm")),
    "xterm.js": ("@xterm/xterm", ("lib/xterm.mjs", "css/xterm.css")),
    "xterm.js, addon-fit": ("@xterm/addon-fit", ("lib/addon-fit.mjs",)),
}
SEABIOS = Path("/usr/share/seabios")
LEVEL = 19
"""Of zstd, for the state."""


def make(work: Path, out: Path) -> None:
    """Put the page together in `out`, which is made. Raises CalledProcessError, OSError.

    --liftoff-only: V8 does not compile a second time, with TurboFan, what the emulator has made of
    the machine's code. A run is twice to four times as fast for it; a page cannot ask for it.
    """
    packages = _npm(work)
    machine = root.make(work)
    image, initrd = disk.image(machine, work), disk.initrd(machine, work)
    state = work / "state"
    subprocess.run(
        ["node", "--liftoff-only", HERE / "boot.mjs", packages / "v86/build", SEABIOS / "bios.bin",
         SEABIOS / "vgabios-stdvga.bin", root.kernel(work), initrd, image, state],
        check=True,
    )  # fmt: skip
    shutil.copytree(HERE / "page", out)
    for package, files in FROM_NPM.values():
        for name in files:
            shutil.copy(packages / package / name, out)
    about = versions(packages, root.kernel(work), image)
    about |= json.loads(Path(f"{state}.json").read_text())
    disk.cut(image, out / f"disk-{about['disk']}")
    (out / "licences.txt").write_text(licences(packages, machine), encoding="utf-8")
    _write_state(state.read_bytes(), about, out)


def versions(packages: Path, kernel: Path, image: Path) -> dict[str, Any]:
    """Return what a state and the page have to agree in."""
    v86 = json.loads((packages / "v86/package.json").read_text())["version"]
    with open(image, "rb") as file:
        checksum = 0
        while piece := file.read(1 << 20):
            checksum = zlib.crc32(piece, checksum)
    return {
        "kernel": kernel.name.removeprefix("vmlinuz-"), "minirun": __version__, "v86": v86,
        "disk": f"{checksum:08x}", "size": image.stat().st_size,
    }  # fmt: skip


def licences(packages: Path, machine: Path) -> str:
    """Return the text that names each part, its version, and where its licence stands."""
    found = ["minirun: Apache-2.0. It is not a part of the programs below, nor they of it.", ""]
    for name, (package, _) in FROM_NPM.items():
        about = json.loads((packages / package / "package.json").read_text())
        text = (packages / package / "LICENSE").read_text(encoding="utf-8")
        found += [f"{name} {about['version']}, npm: {about['license']}", "", text.rstrip(), ""]
    found += [
        "SeaBIOS, Debian's package seabios: LGPL-3; it started the machine, and is in its memory.",
        "",
        "Wheels of PyPI in the machine; their licences lie in it, below /" + root.PLACE + ":",
        *(f"  {each.replace('==', ' ')}" for each in root.WHEELS),
        "",
        f"Packages of Debian {root.SUITE} in the machine; their licences lie in it, as",
        "/usr/share/doc/PACKAGE/copyright, and their sources at https://sources.debian.org:",
        *(f"  {each}" for each in [f"{root.KERNEL} (the kernel)", *root.packages(machine)]),
    ]
    return "\n".join(found) + "\n"


def _npm(work: Path) -> Path:
    """Install what package.json names, by the lock beside it."""
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, work)
    words = ("--no-audit", "--no-fund", "--ignore-scripts", "--silent")
    subprocess.run(["npm", "ci", *words], cwd=work, check=True)
    return work / "node_modules"


def _write_state(state: bytes, about: dict[str, Any], out: Path) -> None:
    """Write the state, and tab.json, which says what there is. All else is there."""
    packed = zstd.compress(state, LEVEL)
    head = about | {"bytes": len(packed), "crc32": zlib.crc32(packed)}
    whole = f"{SIGN}{json.dumps(head)}\n".encode() + packed
    (out / "state.bin").write_bytes(whole)
    files = sorted(path.name for path in out.iterdir() if path.is_file())
    total = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    known = about | {"bytes": len(whole), "files": files, "total": total}
    (out / "tab.json").write_text(json.dumps(known, indent=1) + "\n")


def folder() -> Path:
    """Return where `make tab` puts it: a part of the site."""
    return ROOT / "build/site/tab"
