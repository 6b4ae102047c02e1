"""What a learner's program is given: layers of an image, a bundle, a simulated driver.

The image is busybox: one static program. In a check two layers that have a file of the same name
lie upon it, so that their order can be seen.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from minirun.core.keeping.settings import Settings
from minirun.core.kernel import mounts
from minirun.gpu import simulated
from minirun.image import workshop
from minirun.image.store import Image
from minirun.oci import run_config

IMAGE = "busybox"
HOME = Path("/run/level")
"""Where a check makes all that it gives to a program; in the sandbox."""
PROC = Path("/run/proc")
"""A /proc, in the sandbox, that no program under test covers with its own."""
WHICH, TOP, BELOW = "which", "the layer on top\n", "the layer below\n"
_LDCONFIG = "/sbin/ldconfig"
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def image(name: str, settings: Settings) -> Image:
    """Return an image of the store; it is pulled or made if it is not there. Raises ImageError."""
    found: Image = workshop.call("find")(name, settings)
    return found


def lowerdir(found: Image) -> str:
    """Return an image's layers as overlay's lowerdir has them: the topmost first."""
    return ":".join(reversed(found.layers))


def driver(settings: Settings) -> Path:
    """Return the root directory of a simulated driver: files as on a host that has one.

    As on a host, ld.so.cache knows its libraries, and /proc/devices its major numbers. Raises
    MinirunError, OSError.
    """
    nodes = simulated.inventory(settings.store).nodes
    root = Path(simulated.driver_root(settings.store))
    devices = root / "proc/devices"
    if not devices.exists():
        majors = {Path(node.path).name: node.major for node in nodes}
        rows = [("nvidia", majors["nvidiactl"]), ("nvidia-uvm", majors["nvidia-uvm"])]
        lines = [f"{major:3} {name}\n" for name, major in rows]
        devices.write_text("Character devices:\n" + "".join(lines))
    if not (root / "etc/ld.so.cache").exists():
        subprocess.run([_LDCONFIG, "-r", root], check=True, capture_output=True)
    return root


def majors(driver_root: str) -> list[int]:
    """Return the major numbers that a driver's /proc/devices has. Raises OSError."""
    rows = Path(driver_root, "proc/devices").read_text().splitlines()[1:]
    return [int(row.split()[0]) for row in rows]


def own_driver(root: str) -> str:
    """Copy a driver's directory. Return where the copy is.

    There no GPU's minor number is its index, as on a host with several kinds of them.
    """
    copy = _copy(root, HOME / "driver")
    files = _gpu_files(copy)
    for index, file in enumerate(files):
        minor = (index + 1) % len(files)
        file.write_text(re.sub(r"(Device Minor:\s*)\d+", rf"\g<1>{minor}", file.read_text()))
    return copy


def gpus(driver_root: str) -> list[tuple[str, int]]:
    """Return the UUID and the minor number of each GPU of a driver, by their indexes."""
    texts = [file.read_text() for file in _gpu_files(driver_root)]
    found = [re.search(r"UUID:\s*(\S+).*Minor:\s*(\d+)", text, re.DOTALL) for text in texts]
    return [(each[1], int(each[2])) for each in found if each]


def _gpu_files(driver_root: str) -> list[Path]:
    """Return the files `information` of a driver's GPUs, by their places on the PCI bus."""
    return sorted(Path(driver_root, "proc/driver/nvidia/gpus").glob("*/information"))


def layers(lower: str) -> str:
    """Make two layers upon copies of those of `lower`. Return all as overlay's lowerdir has them.

    They are copied, since the kernel lays an overlay upon two others at most, and the host's files
    are one already.
    """
    copies = [_copy(each, HOME / f"layer{at}") for at, each in enumerate(lower.split(":"))]
    for name, text in (("top", TOP), ("below", BELOW)):
        (HOME / name).mkdir(parents=True)
        (HOME / name).chmod(0o755)
        (HOME / name / WHICH).write_text(text)
    return ":".join([f"{HOME}/top", f"{HOME}/below", *copies])


def _copy(source: str, target: Path) -> str:
    """Copy a directory, with links, owners and times. Return where the copy is. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "--archive", "--sparse=always", source, target], check=True)
    return str(target)


def bundle(name: str, lower: str, document: dict[str, Any]) -> Path:
    """Make a bundle, whose root filesystem takes what is written. Return its directory.

    One that is there gets the new config.json.
    """
    directory = HOME / "bundles" / name
    if not directory.exists():
        _overlay(directory, lower)
    (directory / "config.json").write_text(json.dumps(document, indent=1))
    return directory


def _overlay(directory: Path, lower: str) -> str:
    """Mount an overlay at rootfs in a new directory. Return its path."""
    for folder in ("rootfs", "upper", "work"):
        (directory / folder).mkdir(parents=True)
        (directory / folder).chmod(0o755)
    data = f"lowerdir={lower},upperdir={directory}/upper,workdir={directory}/work"
    mounts.mount("overlay", f"{directory}/rootfs", "overlay", 0, data)
    return f"{directory}/rootfs"


def config(**process: Any) -> dict[str, Any]:
    """Return a config.json as an engine writes it, small."""
    env = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "FROM_CONFIG=yes"]
    return {
        "ociVersion": "1.0.2",
        "root": {"path": "rootfs"},
        "hostname": "from-config",
        "process": {"cwd": "/tmp", "env": env, "user": {"uid": 0, "gid": 0}, **process},
        "mounts": [
            _mount("/proc", "proc", "nosuid", "noexec", "nodev"),
            _mount("/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
            _mount("/dev/pts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666",
                   "mode=0620"),
            _mount("/sys", "sysfs", "nosuid", "noexec", "nodev", "ro"),
            _mount("/made-by-config", "tmpfs", "nosuid", "nodev", "size=1m"),
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("mount", "pid", "uts", "ipc")],
        },
    }  # fmt: skip


def _mount(destination: str, kind: str, *options: str) -> dict[str, Any]:
    return {"destination": destination, "type": kind, "source": kind, "options": list(options)}


def with_flags(command: tuple[str, ...], flags: tuple[str, ...]) -> dict[str, Any]:
    """Return the config.json that asks for what flags of lower levels do, and what an engine adds.

    `flags`: pairs of a name and a value.
    """
    document = config(args=list(command), noNewPrivileges=True, cwd="/")
    process, linux = document["process"], document["linux"]
    kept = list(run_config.CAPABILITIES)
    process["capabilities"] = dict.fromkeys(("bounding", "effective", "permitted"), kept)
    engines = run_config.example()["linux"]
    linux |= {name: engines[name] for name in ("maskedPaths", "readonlyPaths")}
    linux["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["unshare"], "action": "SCMP_ACT_ERRNO"}]}  # fmt: skip
    resources = linux["resources"] = {}
    for name, value in zip(flags[::2], flags[1::2], strict=True):
        match name:
            case "--hostname":
                document["hostname"] = value
            case "--gpus":
                process["env"].append(f"NVIDIA_VISIBLE_DEVICES={value}")
            case "--user":
                process["user"] = dict(zip(("uid", "gid"), map(int, value.split(":")), strict=True))
                process["capabilities"] |= {"effective": [], "permitted": []}
            case "--memory":
                resources["memory"] = {"limit": int(value[:-1]) * _UNITS[value[-1]]}
            case "--pids-limit":
                resources["pids"] = {"limit": int(value)}
            case "--cpus":
                resources["cpu"] = {"quota": int(float(value) * 100_000), "period": 100_000}
    return document
