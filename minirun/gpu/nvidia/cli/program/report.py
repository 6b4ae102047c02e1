"""What `nvidia-container-cli info` and `list` print."""

from __future__ import annotations

from minirun.gpu.asked.request import NvidiaRequest
from minirun.gpu.asked.select import choose
from minirun.gpu.driverroot import PROC
from minirun.gpu.inventory import Gpu, Inventory
from minirun.gpu.nvidia.cli import imex, mig
from minirun.gpu.nvidia.shared import catalog

_HEAD = (
    "Device Index", "Device Minor", "Model", "Brand", "GPU UUID", "Bus Location", "Architecture",
)  # fmt: skip
_WIDTH = 15
_EVERYTHING = frozenset(("--libraries", "--binaries", "--ipcs", "--firmwares", "--compat32"))


def info(inventory: Inventory, csv: bool) -> list[str]:
    """Return the lines of `info`."""
    head = (("NVRM version", inventory.driver), ("CUDA version", inventory.cuda))
    rows = [
        (str(gpu.number), str(gpu.minor), gpu.model, gpu.brand, gpu.uuid, gpu.bus_id, gpu.arch)
        for gpu in inventory.gpus
    ]
    if csv:
        lines = [",".join(name for name, _ in head), ",".join(value for _, value in head)]
        return [*lines, "", ",".join(_HEAD), *(",".join(row) for row in rows)]
    lines = [f"{name + ':':<{_WIDTH}} {value}" for name, value in head]
    for row in rows:
        lines.append("")
        pairs = zip(_HEAD, row, strict=True)
        lines += [f"{name + ':':<{_WIDTH}} {value}" for name, value in pairs]
    return lines


def listing(
    inventory: Inventory, request: NvidiaRequest, words: frozenset[str], everything: bool
) -> list[str]:
    """Return the lines of `list` with these options, or everything. Raises GPUError."""
    if everything:
        request = request._replace(devices=("all",))
        words = _EVERYTHING
    gpus = choose(inventory, request.devices) if inventory.gpus else ()
    mig.check(request, gpus)
    keys = mig.requested_keys(request)
    lines = []
    if everything or any(word.startswith("--device=") for word in words):
        lines += [node.path for node in inventory.nodes]
        lines += [gpu.node for gpu in gpus if not inventory.store]
        if not keys:
            lines += _mig_devices(gpus)
    lines += [imex.path(channel) for channel in imex.numbers(request.imex_channels)]
    for name in keys:
        lines += _key(inventory, gpus, name)
    return lines + _files(inventory, request, words)


def _mig_devices(gpus: tuple[Gpu, ...]) -> list[str]:
    lines = []
    for gpu in gpus:
        for device in gpu.migs:
            instance = f"{PROC}/capabilities/gpu{gpu.minor}/mig/gi{device.gi}"
            lines += [f"{instance}/access", f"{instance}/ci{device.ci}/access"]
            lines += [_cap(device.gi_minor), _cap(device.ci_minor)]
    return lines


def _key(inventory: Inventory, gpus: tuple[Gpu, ...], name: str) -> list[str]:
    """Return what the key to configure, or to monitor, the chosen GPUs consists of."""
    able = mig.capable(inventory, gpus)
    if not able:
        return []
    lines = [f"{mig.CAPABILITIES}/mig/{name}", _cap(mig.key_minor(inventory, name))]
    for gpu in able:
        lines += [f"{mig.CAPABILITIES}/gpu{gpu.minor}", catalog.CAPS_FOLDER]
        lines += [_cap(minor) for minor in mig.minors_of(inventory, gpu)]
    return lines


def _cap(minor: int) -> str:
    return f"{catalog.CAPS_FOLDER}/nvidia-cap{minor}"


def _files(inventory: Inventory, request: NvidiaRequest, words: frozenset[str]) -> list[str]:
    groups = (
        ("--binaries", inventory.binaries),
        ("--libraries", inventory.libraries),
        ("--libraries", inventory.libraries32 if "--compat32" in words else ()),
        ("--ipcs", inventory.sockets),
        ("--firmwares", () if request.no_gsp_firmware else inventory.firmware),
    )
    paths = [file.path for switch, files in groups if switch in words for file in files]
    return [path for path in paths if not request.leaves_out(path)]
