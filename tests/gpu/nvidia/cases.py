"""What a recorded case says of its image and of its host, made real."""

import os
import subprocess
from pathlib import Path
from typing import Any

from gpu.pretend import Host
from minirun.gpu.simulated import elf

LIBRARIES = "usr/lib/x86_64-linux-gnu"
COMPAT = ("libcuda.so.1", "libcudadebugger.so.1", "libnvidia-nvvm.so.4",
          "libnvidia-ptxjitcompiler.so.1")  # fmt: skip


def image(root: Path, case: dict[str, Any]) -> None:
    """Give the image what the case says of it."""
    name, kind = case.get("case", ""), case.get("rootfs", "debian")
    if kind == "fedora":
        (root / "etc/debian_version").unlink()
        (root / "usr/lib64").mkdir()
    if kind.startswith("debian-compat"):
        version = "550.90.07" if kind.endswith("same") else "560.35.05"
        folder = root / "usr/local/cuda-12.6/compat"
        folder.mkdir(parents=True)
        (root / "usr/local/cuda").symlink_to("cuda-12.6")
        for soname in COMPAT:
            file = f"{soname.rpartition('.')[0]}.{version}"
            data = elf.shared_object(soname, "x86_64", ("libc.so.6",), "an image's own")
            (folder / file).write_bytes(data)
            (folder / soname).symlink_to(file)
    if name == "hostile-compat-symlink":
        (root / "usr/local/cuda/compat").mkdir(parents=True)
        link = root / "usr/local/cuda/compat/libyyy.so.1"
        link.symlink_to("../" * 12 + "etc/passwd")
    if name.startswith("hostile-libdir"):
        (root / LIBRARIES).rmdir()
        (root / LIBRARIES).symlink_to("/hostdir" if name.endswith("abs") else "../" * 9 + "hostdir")
    if name == "hostile-libfile-symlink":
        (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")
        (root / LIBRARIES / "libnvidia-ml.so.550.163.01").symlink_to("/etc/passwd")


def prepare(host: Host, name: str) -> None:
    """Give the host what the case says of it."""
    if name == "err-driver-version-skew":
        host.version = "560.35.03"
    if name == "err-nvml-missing":
        host.change = lambda: mask("/usr/lib/x86_64-linux-gnu")
    nodes = {"err-node-missing-nvidia0": "nvidia0", "err-node-missing-uvm": "nvidia-uvm"}
    if name in nodes:
        host.change = lambda: os.unlink(f"/dev/{nodes[name]}")
    if name == "err-node-wrong-dev":
        host.change = lambda: wrong_node("/dev/nvidia0")
    host.moved = name.startswith("driverroot")


def mask(folder: str) -> None:
    """Take libnvidia-ml away from the host."""
    for path in Path(folder).glob("libnvidia-ml.so.*"):
        if not path.is_symlink():
            subprocess.run(["mount", "--bind", "/dev/null", path], check=True)


def wrong_node(path: str) -> None:
    os.unlink(path)
    os.mknod(path, 0o020666, os.makedev(1, 3))
