"""MIG: the devices that a GPU is split into, and the right to split it, and to see all its parts.

A MIG device is two keys: access to its gpu instance, and to its compute instance. To make such
devices, nvidia-smi in a container needs the key "config", to see those of others the key "monitor",
and then every key there may ever be: the whole folders /proc/driver/nvidia/capabilities and
/dev/nvidia-caps, and rules in the cgroup for all of a GPU's minors in
/proc/driver/nvidia-caps/mig-minors, whose devices do not exist yet. As in the real one only `all`
can be asked for.
"""

from __future__ import annotations

from minirun.cgroups.rules import DeviceRule
from minirun.core.errors import GPUError
from minirun.gpu import driverroot
from minirun.gpu.asked.request import NvidiaRequest
from minirun.gpu.driverroot import PROC, proc_root
from minirun.gpu.inventory import Gpu, Inventory
from minirun.gpu.nvidia.cli.nodes import PROC_FILE, node_of
from minirun.gpu.nvidia.shared import catalog
from minirun.gpu.steps import BindMount, DeviceNode, Step

CAPABILITIES = f"{PROC}/capabilities"
MINORS = "/proc/driver/nvidia-caps/mig-minors"
KEYS = (("config", 1), ("monitor", 2))
"""Name below capabilities/mig, and its minor where the driver does not say another."""
_FOLDER = ("nosuid", "noexec")


def requested_keys(request: NvidiaRequest) -> tuple[str, ...]:
    """Return which of config and monitor a request asks for; empty items do not count."""
    return tuple(name for name, _ in KEYS if any(getattr(request, f"mig_{name}").split(",")))


def check(request: NvidiaRequest, gpus: tuple[Gpu, ...]) -> None:
    """Refuse what cannot be asked for. Raises GPUError in the words of nvidia-container-cli."""
    everything = any(device.lower() == "all" for device in request.devices)
    for name in requested_keys(request):
        for item in filter(None, getattr(request, f"mig_{name}").split(",")):
            if item.lower() != "all":
                raise GPUError(
                    f"mig-{name} error: {item}: only 'all' devices are currently supported"
                )
            if not everything and any(gpu.migs for gpu in gpus):
                what = f"cannot enable mig-{name} with specific MIG devices selected"
                raise GPUError(f"mig-{name} error: {item}: {what}")


def capable(inventory: Inventory, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Return the GPUs that can be split: those that have a folder among the capabilities."""
    return tuple(
        gpu
        for gpu in gpus
        if gpu.migs or driverroot.is_dir(inventory.root, f"{CAPABILITIES}/gpu{gpu.minor}")
    )


def plan(
    inventory: Inventory, request: NvidiaRequest, gpus: tuple[Gpu, ...]
) -> tuple[list[Step], list[DeviceRule]]:
    """Return (steps, rules of the cgroup) for the keys, else the MIG devices. Raises OSError."""
    if not requested_keys(request):
        return [step for gpu in gpus for step in _devices(inventory, gpu)], []
    steps: list[Step] = []
    rules: list[DeviceRule] = []
    able, folder = capable(inventory, gpus), catalog.CAPS_FOLDER
    for name in requested_keys(request) if able else ():
        steps.append(BindMount(inventory.root + CAPABILITIES, CAPABILITIES, PROC_FILE))
        if not inventory.caps_major:
            continue
        if not inventory.simulated:
            steps.append(BindMount(inventory.root + folder, folder, _FOLDER))
        wanted = [key_minor(inventory, name)]
        for gpu in able:
            wanted += minors_of(inventory, gpu)
        rules += [DeviceRule(True, "c", inventory.caps_major, minor, "rw") for minor in wanted]
    if steps and inventory.simulated:
        steps += _simulated_nodes(inventory)
    return steps, list(dict.fromkeys(rules))


def _devices(inventory: Inventory, gpu: Gpu) -> list[Step]:
    """Return the keys of the chosen MIG devices of a GPU."""
    steps: list[Step] = []
    base = proc_root(inventory.root)
    for mig in gpu.migs:
        instance = f"{CAPABILITIES}/gpu{gpu.minor}/mig/gi{mig.gi}"
        for folder, minor in ((instance, mig.gi_minor), (f"{instance}/ci{mig.ci}", mig.ci_minor)):
            path = f"{catalog.CAPS_FOLDER}/nvidia-cap{minor}"
            steps += [
                BindMount(f"{base}{folder}/access", f"{folder}/access", PROC_FILE),
                node_of(inventory, path, inventory.caps_major, minor, 0o444),
            ]
    return steps


def _simulated_nodes(inventory: Inventory) -> list[Step]:
    """Return the nodes that a driver would have: the two keys, and those of each MIG device."""
    minors = [minor for _, minor in KEYS]
    for gpu in inventory.gpus:
        for mig in gpu.migs:
            minors += [mig.gi_minor, mig.ci_minor]
    path = f"{catalog.CAPS_FOLDER}/nvidia-cap"
    return [
        DeviceNode(f"{path}{minor}", "c", inventory.caps_major, minor, 0o444) for minor in minors
    ]


def key_minor(inventory: Inventory, name: str) -> int:
    """Return the minor of `config` or `monitor`, as the driver says it in its capability file."""
    try:
        facts = driverroot.facts(inventory.root, f"{CAPABILITIES}/mig/{name}")
    except FileNotFoundError:
        facts = {}
    return int(facts.get("DeviceFileMinor", dict(KEYS)[name]))


def minors(root: str = "") -> dict[str, int]:
    """Return key → minor, as in `gpu0/gi1/access 12`, for all there may ever be. Raises OSError."""
    rows = (line.split() for line in driverroot.read(root, MINORS).decode().splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2}


def minors_of(inventory: Inventory, gpu: Gpu) -> list[int]:
    """Return every minor that a GPU's instances have or may get."""
    prefix = f"gpu{gpu.minor}/"
    try:
        rows = minors(inventory.root).items()
    except FileNotFoundError:
        return [catalog.mig_minor(gpu.minor, 0) + at for at in range(catalog.MIG_MINORS)]
    return [minor for name, minor in rows if name.startswith(prefix)]
