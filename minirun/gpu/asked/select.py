"""Which GPUs: what --gpus says, and which of the host's that means.

    --gpus all | none | 0,1 | GPU-uuid | MIG-uuid | 3:0 | device=0,1 | count=2
    0,exclusive   count=1,exclusive     no other container has them, or gets them
    docker's own spelling too: '"device=0,1"', 'device=0,"capabilities=compute,utility"', count=all

**A bare number is an index**: --gpus 3 is the GPU with index 3, where docker would give any three.
The index is NVML's, not the number in /dev/nvidiaN. What --gpus says becomes the environment
variables NVIDIA_VISIBLE_DEVICES and NVIDIA_DRIVER_CAPABILITIES, and everything after that reads
only those, as in the real stack.
"""

from __future__ import annotations

from minirun.core.errors import GPUError, UsageError
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.record import Record
from minirun.gpu.asked.request import CAPABILITIES
from minirun.gpu.inventory import Gpu, Inventory, Mig

EXCLUSIVE = "exclusive"
_KEYS = ("device", "count", "capabilities", "driver")
_BEGINNINGS = tuple(f"{key}=" for key in _KEYS)
_HINT = "as in --gpus all, --gpus 0,1, --gpus count=2, --gpus none; a bare number is an index"
_HEX = frozenset("0123456789abcdefABCDEF")


class GpuSelector(Record):
    """A parsed --gpus value: devices, or a number of them, and docker's capabilities."""

    devices: tuple[str, ...] = ()
    """Selectors; ("all",) or ("none",) alone."""
    amount: int = 0
    """How many GPUs, whichever they are; 0 where `devices` says which."""
    capabilities: tuple[str, ...] = ()
    exclusive: bool = False
    """Whether the GPUs are to be this container's alone (minirun.gpu.share)."""

    @property
    def is_empty(self) -> bool:
        """Nothing is asked for, not even `none`."""
        return not (self.devices or self.amount)


def parse_gpus(text: str) -> GpuSelector:
    """Parse the value of --gpus. Raises UsageError."""
    values: dict[str, list[str]] = {}
    key, exclusive = "device", False
    for field in _fields(text):
        name, equals, value = field.partition("=")
        if equals:
            if name not in _KEYS or name in values:
                what = "given twice" if name in values else "unknown"
                raise UsageError(f"--gpus {text}: {name} is {what}", f"one of {', '.join(_KEYS)}")
            key, items = name, value.split(",")
        else:
            items = field.split(",")
        named = [item for item in items if item != EXCLUSIVE]
        exclusive = exclusive or named != items
        if named or equals:
            values.setdefault(key, []).extend(named)
        key = "device" if key == "count" else key
    if values.get("driver", ["nvidia"]) != ["nvidia"]:
        raise UsageError(f"--gpus {text}: only driver=nvidia is known", "see --gpu-driver")
    if values.get("count") == ["all"] and "device" not in values:
        values["device"] = values.pop("count")
    amount = _amount(text, values["count"]) if "count" in values else 0
    if amount and "device" in values:
        raise UsageError(f"--gpus {text}: either a count or devices, not both", _HINT)
    for name in values.get("capabilities", []):
        if name not in ("gpu", "nvidia", "all", *CAPABILITIES):
            known = f"one of {', '.join(CAPABILITIES)}, all"
            raise UsageError(f"--gpus {text}: unknown capability {name!r}", known)
    devices = () if amount else _devices(text, values.get("device", []))
    capabilities = [c for c in values.get("capabilities", []) if c not in ("gpu", "nvidia")]
    if exclusive and devices == ("none",):
        raise UsageError(f"--gpus {text}: no gpu to be exclusive", _HINT)
    return GpuSelector(devices, amount, tuple(dict.fromkeys(capabilities)), exclusive)


def bare_number(text: str) -> str:
    """Return what to say of a number that stands alone, which docker reads as a count; or ''."""
    if not _is_index(text) or text == "0":
        return ""
    return f"--gpus {text} is the GPU with index {text}, and no count (that is --gpus count={text})"


def _fields(text: str) -> list[str]:
    """Split at commas outside of double quotes (docker's CSV), and before a key within them."""
    fields, quoted = [""], False
    for index, sign in enumerate(text):
        if sign == '"':
            quoted = not quoted
        elif sign == "," and (not quoted or text.startswith(_BEGINNINGS, index + 1)):
            fields.append("")
        else:
            fields[-1] += sign
    if quoted:
        raise UsageError(f"--gpus {text}: a quote is not closed", _HINT)
    return fields


def _amount(text: str, items: list[str]) -> int:
    value = items[0]
    if len(items) > 1 or not _is_index(value) or not int(value):
        raise UsageError(f"--gpus {text}: {','.join(items)!r} is no count", "as in --gpus count=2")
    return int(value)


def _devices(text: str, items: list[str]) -> tuple[str, ...]:
    """Check that each selector could be one; doubles are dropped. Raises UsageError."""
    devices = tuple(dict.fromkeys(_with_domain(item) for item in items))
    for item in devices:
        if item in ("all", "none") and len(devices) > 1:
            raise UsageError(f"--gpus {text}: {item} stands alone", _HINT)
        if item not in ("all", "none") and not _is_selector(item):
            raise UsageError(f"--gpus {text}: {item!r} is no gpu", _HINT)
    if not devices:
        raise UsageError(f"--gpus {text}: it names no gpu", _HINT)
    return devices


def _with_domain(item: str) -> str:
    """Return a PCI id with its domain: lspci leaves 0 out, and nvidia-container-cli needs it."""
    return f"0:{item}" if "." in item and item.count(":") == 1 else item


def _is_index(text: str) -> bool:
    """Return True for a number from 0 to 9999, as Python writes it."""
    number = whole(text, most=9999)
    return number is not None and str(number) == text


def _is_selector(text: str) -> bool:
    """Return True if a text may name a GPU: an index, a UUID, a PCI id, or index:index for MIG."""
    prefix, _, rest = text.partition("-")
    if prefix.upper() in ("GPU", "MIG") and rest:
        return all(c in _HEX or c == "-" for c in rest)
    if "." in text:
        return pci(text) is not None and set(text.partition(".")[2]) <= _HEX
    return all(_is_index(part) for part in text.split(":")) and text.count(":") <= 1


def pci(text: str) -> tuple[int, ...] | None:
    """Return (domain, bus, device) of a PCI id in any zero padding; None for no id.

    As nvidia-container-cli reads it (sscanf, `%x:%02x:%02x.0`): the domain has to be there, and the
    function may be any, since a GPU is function 0.
    """
    numbers = text.split(":")
    numbers[-1] = numbers[-1].partition(".")[0]
    if len(numbers) != 3 or not all(number and set(number) <= _HEX for number in numbers):
        return None
    if any(len(number) > 2 for number in numbers[1:]):
        return None
    return tuple(int(number, 16) for number in numbers)


def choose(inventory: Inventory, devices: tuple[str, ...]) -> tuple[Gpu, ...]:
    """Return the chosen GPUs in the order asked for, each with its chosen MIG devices only.

    Raises GPUError (`device error: X: unknown device`).
    """
    chosen: dict[int, list[Mig]] = {}
    if not inventory.gpus and any(devices):
        raise GPUError(*inventory.why_no_gpu())
    for device in devices:
        if not device:
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


def _find(inventory: Inventory, device: str) -> tuple[Gpu, Mig | None]:
    """Return the GPU, and the MIG device of it, that one selector means. Raises GPUError."""
    bus_id, index = pci(device), device
    if (number := whole(device)) is not None:
        index = str(number)  # nvidia-container-cli takes 01 for 1
    for gpu in inventory.gpus:
        if index == str(gpu.number) or device.lower() == gpu.uuid.lower():
            return gpu, None
        if bus_id and bus_id == pci(gpu.bus_id):
            return gpu, None
        for at, mig in enumerate(gpu.migs):
            if device == f"{gpu.number}:{at}" or device.lower() == mig.uuid.lower():
                return gpu, mig
    raise GPUError(f"device error: {device}: unknown device", inventory.describe_gpus())
