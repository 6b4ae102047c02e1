"""The host as the toolkit's programs see it: its GPUs by NVML, errors in their words.

There is no fallback: without a driver they fail. Only where MINIRUN_SIM asks for it does the
simulated driver stand in.
"""

from __future__ import annotations

import os

from minirun.core.errors import GPUError
from minirun.gpu import driverroot, simulated
from minirun.gpu.inventory import Inventory
from minirun.gpu.nvidia.shared import real
from minirun.gpu.nvidia.shared.find import Finder

UNRESOLVABLE = "failed to inject CDI devices: unresolvable CDI devices"
_NVML = "initialization error: "
_UNKNOWN = "nvml error: "


def host_inventory(finder: Finder, store: str, more: dict[str, str] | None = None) -> Inventory:
    """Return what the host has, its driver where `finder` looks. Raises MinirunError, OSError.

    A simulated driver's files are in `store`, unless MINIRUN_STORE names another in `more`:
    variables that count before those of this process. If the host's own root has no
    driver, and a driver container's has, the finder looks there from then on.
    """
    env = {**os.environ, **(more or {})}
    if simulation := env.get("MINIRUN_SIM"):
        return simulated.inventory((more or {}).get("MINIRUN_STORE") or store, simulation)
    try:
        finder.enter(finder.root or real.driver_root())
        return real.seen_by(finder)
    except GPUError as error:
        raise _in_its_words(error, driverroot.hint_without_driver(finder.root)) from None


def _in_its_words(error: GPUError, hint: str) -> GPUError:
    """Turn nvidia-container-cli's words for a failure of NVML into the toolkit's."""
    text = str(error)
    if not text.startswith(_NVML):
        return error
    rest = text.removeprefix(_NVML)
    known = rest.startswith(_UNKNOWN)
    what = rest.removeprefix(_UNKNOWN).title() if known else "ERROR_LIBRARY_NOT_FOUND"
    begin = "failed to construct device spec generators: failed to initialize NVML"
    return GPUError(f"{begin}: {what}", hint, status=1)
