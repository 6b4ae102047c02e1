"""Debian's own packages of NVIDIA's driver, unpacked as a driver root.

Each library lies in a folder of its own and is reached through two absolute links, as
update-alternatives makes them: /usr/lib/TRIPLET/libcuda.so.1 -> /etc/alternatives/nvidia--… ->
/usr/lib/TRIPLET/nvidia/current/libcuda.so.1. The packages are fetched when a test asks for them,
from the mirror that this machine's apt knows, and go with the test run.
"""

import fcntl
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from minirun.core.errors import ImageError
from minirun.image.recipe import aptsources
from minirun.image.recipe.bootstrap import os_release
from required import skip

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
    with _held(fetched):
        fetched.mkdir(exist_ok=True)
        for package in sorted(fetched.glob("*.deb")) or _fetch(fetched):
            subprocess.run(["dpkg", "-x", package, root], check=True)
    libcuda = next(root.glob(f"{CURRENT}/libcuda.so.*.*"))
    _alternatives(root)
    (root / "etc/ld.so.conf").write_text(f"/lib/{TRIPLET}\n/usr/lib/{TRIPLET}\n")
    subprocess.run(["/sbin/ldconfig", "-r", root], check=True)
    return DebianDriver(root, libcuda.name.removeprefix("libcuda.so."))


def remove(folder: Path, fetched: Path) -> None:
    """Remove what was unpacked, and the packages: none of it is kept."""
    with _held(fetched):
        shutil.rmtree(folder)
        shutil.rmtree(fetched, ignore_errors=True)


@contextmanager
def _held(fetched: Path) -> Iterator[None]:
    with fetched.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(folder: Path) -> list[Path]:
    """Let apt download the packages, with lists of its own; the machine's stay as they are."""
    try:
        sources = aptsources.read(os_release("/").get("VERSION_CODENAME", ""))
    except ImageError as error:
        skip(f"no packages of NVIDIA's driver: {error}")
    (folder / "lists/partial").mkdir(parents=True, exist_ok=True)
    line = f"deb {sources.mirror} {sources.suite} non-free\n"
    (folder / "sources.list").write_text(line)
    words = ["apt-get", "-qq", *(f"-o{option}" for option in _options(folder))]
    done = subprocess.run([*words, "update"], capture_output=True, text=True, check=False)
    if done.returncode:
        skip(f"apt-get update: {done.stderr.strip()}")
    listed = subprocess.run(
        ["apt-cache", *words[2:], "pkgnames"], capture_output=True, text=True, check=True
    ).stdout.split()
    names = [name for name in PACKAGES if name in listed]
    if PACKAGES[0] not in names:
        pytest.skip(f"{sources.suite} has no packages of NVIDIA's driver")
    done = subprocess.run(
        [*words, "download", *names], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        skip(f"apt-get download: {done.stderr.strip()}")
    return sorted(folder.glob("*.deb"))


def _options(folder: Path) -> list[str]:
    return [
        f"Dir::Etc::sourcelist={folder}/sources.list", "Dir::Etc::sourceparts=-",
        f"Dir::State::lists={folder}/lists", f"Dir::Cache={folder}/cache",
        "Acquire::Languages=none", "APT::Sandbox::User=root", "APT::Update::Error-Mode=any",
    ]  # fmt: skip


def _alternatives(root: Path) -> None:
    """Link libraries and programs as the package nvidia-alternative does."""
    names = sorted(path.name for path in (root / CURRENT).glob("*.so.[0-9]"))
    rows = [(f"/usr/lib/{TRIPLET}/{name}", f"/{CURRENT}/{name}") for name in names]
    rows += [
        (f"/usr/bin/{path.name}", f"/usr/lib/nvidia/current/{path.name}")
        for path in sorted((root / "usr/lib/nvidia/current").glob("nvidia-*"))
        if path.stat().st_mode & 0o111 and path.suffix == ""
    ]
    (root / "etc/alternatives").mkdir(parents=True)
    (root / "usr/bin").mkdir(exist_ok=True)
    (root / "lib").symlink_to("usr/lib")
    for link, target in rows:
        between = f"/etc/alternatives/nvidia--{link.rpartition('/')[2]}"
        (root / between[1:]).symlink_to(target)
        (root / link[1:]).symlink_to(between)
