"""What `run --gpus` asks for where the GPUs are not NVIDIA's: choices, groups, CDI names.

    --gpus 0,1 --gpu-driver=amd                    choices, which stages 4 and 5 get
    --gpus 0,1 --gpu-driver=amd --gpu-mode=cdi     the names amd.com/gpu=0 and =1
    -e AMD_VISIBLE_DEVICES=0,1                     the user's word, as the first; an image's is none

--gpu-driver may be left out where the host has GPUs of one vendor only.
"""

import os

from minirun.cli.flags import Parsed
from minirun.core.choices import Choices
from minirun.core.config import VENDORS
from minirun.core.errors import UsageError
from minirun.core.record import Record
from minirun.core.settings import Settings


class Vendor(Record):
    """What is asked for; `name` is empty where it is nothing, or NVIDIA's."""

    name: str = ""
    choices: Choices = Choices()
    groups: "tuple[int, ...]" = ()
    names: "tuple[str, ...]" = ()
    """CDI names, in cdi mode."""


def asked(flags: Parsed, settings: Settings, container_id: str) -> Vendor:
    """Return what is asked for; with NVIDIA's GPUs, where they are. Raises UsageError, GPUError."""
    places = _places(flags)
    own = [text for text in flags.env if text.startswith(tuple(f"{v}=" for v in _VARIABLES))]
    if "gpus" not in flags.given:
        return _found(flags, own[-1], places) if own else Vendor(choices=places)
    from minirun.gpu import drivers

    root = flags.driver_root
    name = drivers.which_driver(flags.gpu_driver or "auto", root, load_kmods=flags.load_kmods)
    if name not in VENDORS:
        return Vendor(choices=places)
    from minirun.gpu import vendors
    from minirun.gpu.share import sharing
    from minirun.gpu.wish import parse_gpus

    found = vendors.look(name, root)
    wish = parse_gpus(flags.gpus)
    devices = vendors.devices(wish, found)
    if wish.amount:
        there = tuple(str(card.number) for card in found.cards)
        ask = sharing.Ask(there, wish.amount, wish.exclusive, name)
        devices = ",".join(sharing.pick(settings.root, ask, container_id))
    return _found(flags, f"{name}={devices}", places)


_VARIABLES = {variable: vendor for vendor, variable in VENDORS.items() if variable}


def _places(flags: Parsed) -> Choices:
    """Return what --driver-root and --load-kmods choose. Raises UsageError, GPUError."""
    root = ""
    if flags.driver_root:
        if not os.path.isdir(flags.driver_root):
            text = f"--driver-root {flags.driver_root}: no such directory"
            raise UsageError(text, "the folder that has the driver's usr/lib, dev and proc or sys")
        from minirun.gpu import driverroot

        root = driverroot.check(flags.driver_root)
    return Choices(driver_root=root, load_kmods=flags.load_kmods)


def _found(flags: Parsed, text: str, places: Choices) -> Vendor:
    """Return what `vendor=devices`, or `VARIABLE=devices`, means. Raises GPUError."""
    from minirun.gpu import vendors
    from minirun.gpu.request import Request

    name, _, value = text.partition("=")
    name = _VARIABLES.get(name, name)
    found = vendors.look(name, flags.driver_root)
    devices = tuple(word.strip() for word in value.split(",") if word.strip())
    edits = vendors.plan(found, Request(devices=devices))
    if flags.gpu_mode == "cdi":
        cards = vendors.choose(found, devices)
        names = tuple(f"{found.kind}={card.number}" for card in cards)
        return Vendor(name, places, names=names)
    if flags.gpu_mode == "hook":
        hint = "leave --gpu-mode out, or take cdi"
        raise UsageError(f"--gpu-mode hook: {name} has no such hook", hint)
    chosen = places._replace(gpu_driver=name, gpus=value)
    return Vendor(name, chosen, () if flags.uidmap else tuple(vendors.groups(edits)))
