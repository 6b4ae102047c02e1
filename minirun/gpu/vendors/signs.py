"""The other vendors than NVIDIA: what asks for their GPUs, and what a host with such a GPU has.

An image may have set such a variable. So it is obeyed only if the caller chose that vendor
(--gpu-driver=amd), as the vendors' own runtimes are chosen; and if the vendor's driver is loaded.
"""

from __future__ import annotations

import os

from minirun.core.config import Config

OTHER_VENDORS = {"amd": "AMD_VISIBLE_DEVICES", "intel": "", "gaudi": "HABANA_VISIBLE_DEVICES"}
"""Vendor → the variable that asks for its GPUs, "" for none. See minirun.gpu.vendors."""
KINDS = {"amd": "amd.com/gpu", "intel": "intel.com/gpu", "gaudi": "intel.com/gaudi"}
"""Vendor → CDI kind."""
GPU_DRIVERS = ("nvidia", "simulated", *OTHER_VENDORS)
NOTHING = ("", "none", "void")
_AMD, _HABANA = "/sys/module/amdgpu", "/sys/bus/pci/drivers/habanalabs"
FOLDERS = (
    _AMD, "/sys/bus/pci/drivers/i915", "/sys/bus/pci/drivers/xe", "/sys/class/accel", _HABANA,
)  # fmt: skip
"""Where no such folder is, none of these vendors has a GPU on this host."""
_LOADED = {"AMD_VISIBLE_DEVICES": _AMD, "HABANA_VISIBLE_DEVICES": _HABANA}
"""Variable → what exists if the vendor's driver is loaded."""


def vendor(config: Config) -> str:
    """Return which of OTHER_VENDORS the container gets GPUs of; "" for none, and NVIDIA.

    The caller chose that vendor and its GPUs; or :func:`asking` names its variable, and the
    vendor's driver is loaded.
    """
    chosen = config.choices
    if chosen.gpus is not None and chosen.gpu_driver in OTHER_VENDORS:
        return chosen.gpu_driver
    variable = asking(config)
    loaded = variable and os.path.isdir(chosen.driver_root + _LOADED[variable])
    return chosen.gpu_driver if loaded else ""


def asking(config: Config) -> str:
    """Return the variable by which the environment asks for GPUs of the chosen vendor, or ""."""
    variable = OTHER_VENDORS.get(config.choices.gpu_driver, "")
    asked = config.environment.get(variable, "").strip().lower() if variable else ""
    return "" if asked in NOTHING or config.choices.gpus is not None else variable


def refused(config: Config) -> str:
    """Return the vendor whose variable asks and whose driver is loaded; "" if one was chosen."""
    if config.choices.gpu_driver:
        return ""
    env = config.environment
    for name, variable in OTHER_VENDORS.items():
        if env.get(variable, "").strip().lower() not in NOTHING and os.path.isdir(
            _LOADED[variable]
        ):
            return name
    return ""


def selectors(config: Config) -> tuple[str, ...]:
    """Return the selectors in config.json: of `run --gpus`, else of the vendor's own variable."""
    text = config.choices.gpus
    if text is None:
        text = config.environment.get(OTHER_VENDORS[vendor(config)], "")
    return tuple(word for word in text.split(",") if word.strip().lower() not in NOTHING)
