"""The way of other vendors than NVIDIA: which CDI devices `run --gpus`, or a bundle, asks for.

    run --gpus 0,1 --gpu-driver=amd            the CDI devices amd.com/gpu=0 and =1
    run -e AMD_VISIBLE_DEVICES=0,1             the user's word, as the first; an image's is none
    --gpu-driver=amd create --bundle DIR ID    what the variable in DIR's config.json names

--gpu-driver may be left out where the host has GPUs of one vendor only.
"""

from __future__ import annotations

from minirun.core.config import Config
from minirun.core.errors import UsageError
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.gpu.asked.request import GpuOptions
from minirun.gpu.asked.select import GpuSelector
from minirun.gpu.asked.ways.records import GpuRequest, RunGpus
from minirun.gpu.vendors import signs
from minirun.gpu.vendors.signs import OTHER_VENDORS

with lazy:
    from minirun.gpu.asked.ways import cdi_edits  # 15 ms, for CDI
    from minirun.gpu.share import count  # few ask for a count
    from minirun.gpu.vendors import discovery  # 8 ms, few hosts have one

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.gpu.asked.ways.records import CdiEdits
    from minirun.gpu.vendors.discovery import Cards

_VARIABLES = {variable: vendor for vendor, variable in OTHER_VENDORS.items() if variable}
_BEGINNINGS = tuple(f"{variable}=" for variable in _VARIABLES)


def is_asked(request: GpuRequest, given: RunGpus) -> bool:
    """Return True if --gpus, or else a vendor's variable of -e, means GPUs of another vendor.

    Raises UsageError, GPUError.
    """
    if request.flags.gpus is None:
        return bool(_own(request.flags))
    return request.driver() in OTHER_VENDORS


def give(request: GpuRequest, given: RunGpus) -> RunGpus:
    """Return `given` with the names of the CDI devices. Raises UsageError, GPUError."""
    flags, selector = request.flags, request.selector
    if flags.gpus is None:
        variable, _, text = _own(flags)[-1].partition("=")
        vendor = _VARIABLES[variable]
        found = discovery.find_cards(vendor, flags.driver_root)
    else:
        vendor = request.driver()
        found = discovery.find_cards(vendor, flags.driver_root)
        devices = _counted(request, found) if selector.amount else selector.devices
        text = ",".join(devices)
    if flags.mode == "hook":
        hint = "leave --gpu-mode out, or take cdi"
        raise UsageError(f"--gpu-mode hook: {vendor} has no such hook", hint)
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    names = tuple(f"{found.kind}={card.number}" for card in discovery.choose(found, words))
    choices = given.choices._replace(gpu_driver=vendor, gpus=text)
    return given._replace(choices=choices, names=names, kind=f"{found.kind}=")


def _own(flags: GpuOptions) -> list[str]:
    """Return the variables of -e by which other vendors' GPUs are asked for."""
    return [text for text in flags.variables if text.startswith(_BEGINNINGS)]


def _counted(request: GpuRequest, found: Cards) -> list[str]:
    """Return the GPUs that count=N takes. Raises GPUError."""
    there = [str(card.number) for card in found.cards]
    place = (request.settings, request.container_id)
    return count.choose(request.selector, there, found.vendor, place, f"this host has {len(there)}")


def of_bundle(config: Config) -> CdiEdits | None:
    """Return what a bundle's config.json gets where the caller chose another vendor than NVIDIA.

    None if it asks for no GPU of that vendor, or whose driver is not loaded. Raises GPUError.
    """
    vendor = signs.vendor(config)
    if not vendor:
        return None
    found = discovery.find_cards(vendor, config.choices.driver_root)
    names = [f"{found.kind}={c.number}" for c in discovery.choose(found, signs.selectors(config))]
    if not names:
        return None
    asked = GpuOptions(
        devices=tuple(names), driver_root=config.choices.driver_root,
        mapped="user" in config.namespaces,
    )  # fmt: skip
    request = GpuRequest(asked, GpuSelector(), Settings(), "")
    return cdi_edits.resolve(request, asked.devices)._replace(devices=())
