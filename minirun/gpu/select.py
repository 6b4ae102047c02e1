"""Which GPUs: the selectors of NVIDIA_VISIBLE_DEVICES, against what the host has."""

from minirun.core.errors import GPUError
from minirun.gpu.inventory import Gpu, Inventory, Mig
from minirun.gpu.selector import pci


def choose(inventory: Inventory, devices: "tuple[str, ...]") -> "tuple[Gpu, ...]":
    """Return the chosen GPUs in the order asked for, each with its chosen MIG devices only.

    Raises GPUError (`device error: X: unknown device`).
    """
    chosen: "dict[int, list[Mig]]" = {}
    for device in devices:
        if device in ("", "none"):
            continue
        if device.lower() == "all":
            chosen = {gpu.number: list(gpu.migs) for gpu in inventory.gpus}
            break
        gpu, mig = _find(inventory, device)
        migs = chosen.setdefault(gpu.number, [])
        if mig and mig not in migs:
            migs.append(mig)
    by_number = {gpu.number: gpu for gpu in inventory.gpus}
    return tuple(
        gpu if gpu.migs == tuple(migs) else gpu._replace(migs=tuple(migs))
        for gpu, migs in ((by_number[number], migs) for number, migs in chosen.items())
    )


def _find(inventory: Inventory, device: str) -> "tuple[Gpu, Mig | None]":
    """Return the GPU, and the MIG device of it, that one selector means. Raises GPUError."""
    bus_id = pci(device)
    for gpu in inventory.gpus:
        if device == str(gpu.number) or device.lower() == gpu.uuid.lower():
            return gpu, None
        if bus_id and bus_id == pci(gpu.bus_id):
            return gpu, None
        for at, mig in enumerate(gpu.migs):
            if device == f"{gpu.number}:{at}" or device.lower() == mig.uuid.lower():
                return gpu, mig
    raise GPUError(f"device error: {device}: unknown device", inventory.describe_gpus())
