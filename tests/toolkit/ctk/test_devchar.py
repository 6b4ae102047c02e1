"""nvidia-ctk system create-dev-char-symlinks."""

import os
import stat
from pathlib import Path

import pytest

from conftest import Program
from minirun.core.errors import GPUError
from minirun.gpu.nvidia.shared.log import ToolkitLog
from minirun.toolkit.ctk.devchar import make_nodes, possible_nodes

COMMAND = ("nvidia-ctk", "system", "create-dev-char-symlinks")


@pytest.fixture
def driver_root(tmp_path: Path) -> Path:
    root = tmp_path / "driver"
    (root / "dev/nvidia-caps").mkdir(parents=True)
    for name, major, minor in (("nvidia0", 195, 0), ("nvidiactl", 195, 255), ("null", 1, 3),
                               ("nvidia-fs0", 240, 0), ("nvidia-nvswitchctl", 241, 255),
                               ("nvidia-nvlink", 242, 0),
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
    (path / "proc/driver/nvidia-caps/mig-minors").write_text(
        "config 1\nmonitor 2\n" + "".join(f"gpu{gpu}/gi0/access {3 + gpu}\n" for gpu in range(32))
    )
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
        **{f"508:{minor}": f"nvidia-caps/nvidia-cap{minor}" for minor in (1, 2, 3, 4)},
    }  # fmt: skip
    assert possible_nodes("/r", kernel(tmp_path / "none", gpus=0)) == []


def test_a_host_without_nodes_is_told(minirun: Program, tmp_path: Path) -> None:
    done = minirun(*COMMAND, f"--driver-root={tmp_path}", f"--dev-char-path={tmp_path}/char")
    assert (done.returncode, (tmp_path / "char").exists()) == (0, False)
    assert f'msg="No NVIDIA devices found in {tmp_path}"' in done.stderr


def test_without_the_driver_there_is_nothing_to_expect(tmp_path: Path) -> None:
    host = kernel(tmp_path, gpus=1)
    (tmp_path / "proc/devices").write_text("Character devices:\n  1 mem\n")
    with pytest.raises(GPUError, match="has no nvidia"):
        possible_nodes("", host)


def test_control_nodes_are_made_where_they_are_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    host, log = kernel(tmp_path / "kernel", gpus=0), ToolkitLog("info")
    folder = tmp_path / "dev"
    folder.mkdir()
    make_nodes(str(tmp_path), log, host, dry_run=True)
    assert f"mknod --mode=0666 {folder}/nvidiactl c 195 255" in capfd.readouterr().err
    assert not os.listdir(folder)
    for _ in range(2):
        make_nodes(str(tmp_path), log, host)
    assert capfd.readouterr().err.count("already exists") == 4
    found = {path.name: path.stat() for path in folder.iterdir()}
    assert {name: (os.major(row.st_rdev), os.minor(row.st_rdev), oct(row.st_mode)) for name, row in
            found.items()} == {
        "nvidiactl": (195, 255, "0o20666"), "nvidia-modeset": (195, 254, "0o20666"),
        "nvidia-uvm": (510, 0, "0o20666"), "nvidia-uvm-tools": (510, 1, "0o20666"),
    }  # fmt: skip


def test_no_control_node_is_made_unasked(minirun: Program, tmp_path: Path) -> None:
    words = ("nvidia-ctk", "system", "create-device-nodes", f"--driver-root={tmp_path}")
    done = minirun(*words)
    assert (done.returncode, done.stderr, os.listdir(tmp_path)) == (0, "", [])
    if not os.path.exists("/proc/driver/nvidia/version"):
        done = minirun(*words, "--control-devices")
        assert done.returncode == 1 and "/proc/devices has no nvidia" in done.stderr
