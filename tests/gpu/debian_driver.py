"""Debian's own packages of NVIDIA's driver, unpacked as a driver root.

Each library lies in a folder of its own and is reached through two absolute links, as
update-alternatives makes them: /usr/lib/TRIPLET/libcuda.so.1 -> /etc/alternatives/nvidia--… ->
/usr/lib/TRIPLET/nvidia/current/libcuda.so.1. The packages are fetched when a test asks for them,
from the mirror that this machine's apt knows, and go with the test run.
"""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

import debian_packages
from debian_packages import Archive, one_at_a_time

TRIPLET = "x86_64-linux-gnu"
CURRENT = f"usr/lib/{TRIPLET}/nvidia/current"
PACKAGES = (
    "libcuda1", "libcudadebugger1", "libnvidia-ml1", "libnvidia-cfg1", "nvidia-smi",
    "nvidia-driver-bin", "nvidia-cuda-mps", "libnvidia-ptxjitcompiler1", "libnvidia-allocator1",
    "libnvidia-pkcs11-openssl3", "libnvidia-opticalflow1", "libnvidia-encode1", "libnvcuvid1",
    "nvidia-vdpau-driver", "libnvidia-fbc1", "libglx-nvidia0", "libegl-nvidia0", "libgles-nvidia1",
    "libgles-nvidia2", "libnvidia-ngx1", "nvidia-opencl-icd",
)  # fmt: skip
"""22 MB; those with what draws pictures and compiles shaders are as large again, each."""


class DebianDriver(NamedTuple):
    """The driver root, and the version of the driver in it."""

    root: Path
    version: str


def unpack(folder: Path, fetched: Path) -> DebianDriver:
    """Unpack the driver in `folder`; skips, or fails, where it cannot be fetched.

    The packages go to `fetched`, which all processes of a test run share.
    """
    root = folder / "driver"
    root.mkdir()
    with one_at_a_time(fetched):
        fetched.mkdir(exist_ok=True)
        debian_packages.unpack(sorted(fetched.glob("*.deb")) or _fetch(fetched), root)
    libcuda = next(root.glob(f"{CURRENT}/libcuda.so.*.*"))
    alternatives(root, "current")
    (root / "etc/ld.so.conf").write_text(f"/lib/{TRIPLET}\n/usr/lib/{TRIPLET}\n")
    subprocess.run(["/sbin/ldconfig", "-r", root], check=True)
    return DebianDriver(root, libcuda.name.removeprefix("libcuda.so."))


def remove(folder: Path, fetched: Path) -> None:
    """Remove what was unpacked, and the packages: none of it is kept."""
    with one_at_a_time(fetched):
        shutil.rmtree(folder)
        shutil.rmtree(fetched, ignore_errors=True)


def _fetch(folder: Path) -> list[Path]:
    archive = Archive(folder, "non-free")
    names = [name for name in PACKAGES if name in archive.names]
    if PACKAGES[0] not in names:
        pytest.skip(f"{archive.release} has no packages of NVIDIA's driver")
    return archive.fetch(*names)


def alternatives(root: Path, flavor: str) -> None:
    """Link libraries and programs as nvidia-alternative does: current, tesla, tesla-470, …"""
    folder = f"usr/lib/{TRIPLET}/nvidia/{flavor}"
    names = sorted(path.name for path in (root / folder).glob("*.so.[0-9]"))
    rows = [(f"/usr/lib/{TRIPLET}/{name}", f"/{folder}/{name}") for name in names]
    rows += [
        (f"/usr/bin/{path.name}", f"/usr/lib/nvidia/{flavor}/{path.name}")
        for path in sorted((root / f"usr/lib/nvidia/{flavor}").glob("nvidia-*"))
        if path.stat().st_mode & 0o111 and path.suffix == ""
    ]
    (root / "etc/alternatives").mkdir(parents=True)
    (root / "usr/bin").mkdir(exist_ok=True)
    (root / "lib").symlink_to("usr/lib")
    for link, target in rows:
        between = f"/etc/alternatives/nvidia--{link.rpartition('/')[2]}"
        (root / between[1:]).symlink_to(target)
        (root / link[1:]).symlink_to(between)
