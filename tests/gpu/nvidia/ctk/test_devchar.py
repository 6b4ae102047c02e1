"""nvidia-ctk system create-dev-char-symlinks."""

import os
import stat
from pathlib import Path

import pytest

from conftest import Program
from minirun.core.errors import GPUError
from minirun.gpu.nvidia.ctk.devchar import possible_nodes

COMMAND = ("nvidia-ctk", "system", "create-dev-char-symlinks")


@pytest.fixture
def driver_root(tmp_path: Path) -> Path:
    root = tmp_path / "driver"
    (root / "dev/nvidia-caps").mkdir(parents=True)
    for name, major, minor in (("nvidia0", 195, 0), ("nvidiactl", 195, 255), ("null", 1, 3),
                               ("nvidia-caps/nvidia-cap1", 508, 1)):  # fmt: skip
        os.mknod(root / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
    (root / "dev/nvidia-file").touch()
    return root


def links(folder: Path) -> dict[str, str]:
    return {path.name: os.readlink(path) for path in folder.iterdir()} if folder.exists() else {}


def test_links_to_the_nodes_that_are_there(
    minirun: Program, tmp_path: Path, driver_root: Path
) -> None:
    folder = tmp_path / "char"
    flags = (f"--driver-root={driver_root}", f"--dev-char-path={folder}")
    dry = minirun(*COMMAND, *flags, "--dry-run")
    assert dry.returncode == 0 and links(folder) == {}
    assert f"Creating link {folder}/195:0 => {driver_root}/dev/nvidia0" in dry.stderr
    assert minirun(*COMMAND, *flags).returncode == 0
    expected = {
        "195:0": f"{driver_root}/dev/nvidia0",
        "195:255": f"{driver_root}/dev/nvidiactl",
        "508:1": f"{driver_root}/dev/nvidia-caps/nvidia-cap1",
    }
    assert links(folder) == expected
    again = minirun(*COMMAND, *flags)
    assert again.returncode == 0 and links(folder) == expected
    assert again.stderr.count("file exists") == 3


def kernel(path: Path, *, gpus: int) -> str:
    """Folders as the kernel's /proc and /sys with the driver loaded."""
    (path / "proc/driver/nvidia-caps").mkdir(parents=True)
    (path / "proc/devices").write_text(
        "Character devices:\n  1 mem\n195 nvidia\n510 nvidia-uvm\n508 nvidia-caps\n\n"
        "Block devices:\n  8 nvidia\n"
    )
    (path / "proc/driver/nvidia-caps/mig-minors").write_text("config 1\nmonitor 2\n")
    rows = [("0x10de", "0x030200")] * gpus + [("0x10de", "0x040300"), ("0x8086", "0x030000")]
    for number, (vendor, kind) in enumerate(rows):
        folder = path / f"sys/bus/pci/devices/0000:{number:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
    return str(path)


def test_all_that_the_driver_may_make(tmp_path: Path) -> None:
    nodes = possible_nodes("/r", kernel(tmp_path, gpus=2))
    assert {link: path.removeprefix("/r/dev/") for link, path in nodes} == {
        "195:255": "nvidiactl", "195:254": "nvidia-modeset", "510:0": "nvidia-uvm",
        "510:1": "nvidia-uvm-tools", "195:0": "nvidia0", "195:1": "nvidia1",
        "508:1": "nvidia-caps/nvidia-cap1", "508:2": "nvidia-caps/nvidia-cap2",
    }  # fmt: skip


def test_without_the_driver_there_is_nothing_to_expect(tmp_path: Path) -> None:
    host = kernel(tmp_path, gpus=1)
    (tmp_path / "proc/devices").write_text("Character devices:\n  1 mem\n")
    with pytest.raises(GPUError, match="has no nvidia"):
        possible_nodes("", host)
