"""GPUs that are not NVIDIA's: which CDI devices `run --gpus`, or a bundle, asks for.

    run --gpus 0,1 --gpu-driver=amd            the CDI devices amd.com/gpu=0 and =1
    run -e AMD_VISIBLE_DEVICES=0,1             the user's word, as the first; an image's is none
    --gpu-driver=amd create --bundle DIR ID    what the variable in DIR's config.json names

--gpu-driver may be left out where the host has GPUs of one vendor only.
"""

from __future__ import annotations

from minirun.core.config import Config
from minirun.core.errors import UsageError
from minirun.core.keeping.choices import Choices
from minirun.core.keeping.record import Record
from minirun.core.keeping.settings import Settings
from minirun.gpu import trusted, vendors
from minirun.gpu.asked import drivers, variables
from minirun.gpu.asked.request import GpuOptions
from minirun.gpu.asked.select import GpuSelector
from minirun.gpu.asked.variables import OTHER_VENDORS
from minirun.gpu.cdi import request
from minirun.gpu.cdi.request import CdiEdits
from minirun.gpu.share import count


class VendorRequest(Record):
    """A request for GPUs of another vendor than NVIDIA; `name` is "" if there is none."""

    name: str = ""
    kind: str = ""
    """Its CDI kind."""
    choices: Choices = Choices()
    names: tuple[str, ...] = ()
    """Its CDI devices."""


def resolve(
    asked: GpuOptions, selector: GpuSelector | None, settings: Settings, container_id: str
) -> VendorRequest:
    """Return what --gpus or -e asks for; of NVIDIA the root alone. Raises UsageError, GPUError."""
    places = _places(asked)
    own = [text for text in asked.variables if text.startswith(tuple(f"{v}=" for v in _VARIABLES))]
    if asked.gpus is None or not selector:
        return _found(asked, own[-1], places) if own else VendorRequest(choices=places)
    root = asked.driver_root
    name = drivers.which_driver(asked.driver or "auto", root, load_kmods=asked.load_kmods)
    if name not in OTHER_VENDORS:
        return VendorRequest(choices=places)
    found = vendors.find_cards(name, root)
    devices = ",".join(selector.devices)
    if selector.amount:
        there = [str(card.number) for card in found.cards]
        place = (settings, container_id)
        hint = f"this host has {len(there)}"
        devices = ",".join(count.choose(selector, there, name, place, hint))
    return _found(asked, f"{name}={devices}", places)


_VARIABLES = {variable: vendor for vendor, variable in OTHER_VENDORS.items() if variable}


def _places(asked: GpuOptions) -> Choices:
    """Return what the flags for the driver's places choose. Raises UsageError, GPUError."""
    hint = "the folder that has the driver's usr/lib, dev and proc or sys"
    root = _folder("--driver-root", asked.driver_root, hint)
    dev_root = _folder("--dev-root", asked.dev_root, "the folder that has the nodes in its dev")
    if asked.dev_root and not dev_root:
        dev_root = "/"
    return Choices(driver_root=root, dev_root=dev_root, load_kmods=asked.load_kmods)


def _folder(flag: str, path: str, hint: str) -> str:
    if not path:
        return ""
    if fault := trusted.not_a_folder(path):
        raise UsageError(f"{flag} {path}: {fault}", hint)
    return trusted.check(path)


def _found(asked: GpuOptions, text: str, places: Choices) -> VendorRequest:
    """Return what `vendor=devices`, or `VARIABLE=devices`, means. Raises GPUError."""
    name, _, value = text.partition("=")
    name = _VARIABLES.get(name, name)
    found = vendors.find_cards(name, asked.driver_root)
    devices = tuple(word.strip() for word in value.split(",") if word.strip())
    if asked.mode == "hook":
        hint = "leave --gpu-mode out, or take cdi"
        raise UsageError(f"--gpu-mode hook: {name} has no such hook", hint)
    names = tuple(f"{found.kind}={card.number}" for card in vendors.choose(found, devices))
    return VendorRequest(name, found.kind, places._replace(gpu_driver=name, gpus=value), names)


def of_bundle(config: Config) -> CdiEdits | None:
    """Return what a bundle's config.json gets where the caller chose another vendor than NVIDIA.

    None if it asks for no GPU of that vendor, or whose driver is not loaded. Raises GPUError.
    """
    vendor = variables.vendor(config)
    if not vendor:
        return None
    found = vendors.find_cards(vendor, config.choices.driver_root)
    names = [f"{found.kind}={c.number}" for c in vendors.choose(found, variables.selectors(config))]
    if not names:
        return None
    asked = GpuOptions(
        devices=tuple(names), driver_root=config.choices.driver_root,
        mapped="user" in config.namespaces,
    )  # fmt: skip
    return request.resolve(asked, Settings(), "", None, asked.devices)._replace(devices=())
