"""What `minirun run` was asked for in CDI's terms → the edits that go into config.json.

    --device nvidia.com/gpu=0        out of the specs in /etc/cdi and /var/run/cdi
    --annotation cdi.k8s.io/x=…      the same: Kubernetes' way
    --gpus 0,1 --gpu-mode cdi        the same names, nvidia.com/gpu=0 and =1; where no spec of that
                                     kind is there, one is made from the inventory in memory

The last is what nvidia-container-runtime does by default since 1.18 ("jit-cdi"): there, too, the
devices' edits come before the common ones.
"""

from __future__ import annotations

import os
import sys

from minirun.core.container import Container
from minirun.core.errors import GPUError, UsageError
from minirun.core.keeping import jsonlite, places, state
from minirun.core.keeping.record import Record
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import warn as warn_user
from minirun.gpu import share, vendors
from minirun.gpu.asked import drivers
from minirun.gpu.asked.request import DEFAULT_CAPABILITIES, GpuOptions, NvidiaRequest
from minirun.gpu.cdi import container_edits, inject, names, registry, stale
from minirun.gpu.edits import Edits, GivenGpu
from minirun.gpu.nvidia.cli import catalog, musl, planner, warn
from minirun.gpu.nvidia.ctk import modes, recipe
from minirun.gpu.nvidia.find import Finder
from minirun.gpu.nvidia.runtime import lookup
from minirun.gpu.share import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.gpu.asked.select import GpuSelector
    from minirun.gpu.inventory import Inventory

HOOK = "nvidia-cdi-hook"


class CdiEdits(Record):
    """The containerEdits for config.json, and what edits.json keeps of them."""

    edits: Edits
    """All of them; the device nodes are complete."""
    devices: tuple[str, ...]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """What is written to the container's edits.json: see minirun.gpu.edits.Edits.as_json."""
        hooks = [container_edits.dump_hook(hook) for hook in self.edits.hooks]
        return {"cdi": list(self.devices), **self.edits.as_json(), "hooks": hooks}

    def record(self, container: Container) -> None:
        """Write down who has which GPU, which no stage 5 does. Raises GPUError, OSError."""
        share.record_holders(container, self.edits.gpus, self.edits.simulated)
        state.write(f"{container.directory}/{places.EDITS}", jsonlite.dumps(self.as_json()))

    def put_into(self, config: dict[str, Any], layers: tuple[str, ...]) -> None:
        """Put them into a config.json document for an image with these layers. Raises OSError."""
        if text := musl.misfit_of_layers(layers, self.edits):
            warn_user(f"{text} ({musl.ADVICE})")
        inject.apply(config, self.edits)


def of_flags(
    asked: GpuOptions,
    settings: Settings,
    container_id: str,
    selector: GpuSelector | None,
    named: tuple[str, ...],
) -> CdiEdits:
    """Return the edits of what the flags of `run` ask for; warnings go to standard error.

    `named` are names besides those of --device. Raises UsageError, GPUError.
    """
    for text in asked.devices:
        if not names.is_qualified(text):
            hint = "as in --device nvidia.com/gpu=0"
            raise UsageError(f"--device {text}: invalid CDI device name", hint)
    devices = (*asked.devices, *named, *names.from_annotations(asked.annotations))
    found = resolve(asked, settings, container_id, selector, devices)
    for text in found.warnings:
        warn_user(text)
    return found


def resolve(
    asked: GpuOptions,
    settings: Settings,
    container_id: str,
    selector: GpuSelector | None,
    devices: tuple[str, ...],
) -> CdiEdits:
    """Return what `selector` (of --gpus, in cdi mode) and the full names `devices` mean here.

    Raises GPUError, UsageError, OSError.
    """
    found = registry.load(asked.spec_dirs or registry.FOLDERS)
    warnings = found.warnings
    host = _make_spec(asked, settings.store, selector, found) if selector else None
    wanted = devices
    if selector:
        wanted = (*_names(selector, found, (settings, container_id)), *devices)
        if selector.capabilities:
            warnings.append("--gpus capabilities=… counts in legacy mode only: cdi gives them all")
    wanted = tuple(dict.fromkeys(wanted))
    cards, driver = _other_vendors(asked, wanted, found)
    parts = found.edits(wanted)
    if selector and selector.devices == ("none",):
        parts += found.control_nodes(recipe.KIND)
    edits = inject.complete(inject.join(parts))
    used = [found.devices[name] for name in wanted]
    warnings += stale.warnings(used)
    simulated = any(spec.simulated for spec in used) or bool(host and host.simulated)
    _refuse(asked, edits, simulated)
    if host is None and any(spec.raw["kind"] == recipe.KIND for spec in used):
        host = _host(simulated, settings.store)
        warnings += _wrong(host, bool(wanted)) if host else []
    numbers = frozenset((node.major, node.minor) for node in edits.device_nodes)
    given = planner.gpus_of_nodes(host, numbers) if host else ()
    is_nvidia = any(name.startswith("nvidia.com/") for name in wanted)
    nvidia = [minor for major, minor in numbers if is_nvidia and major == catalog.NVIDIA]
    if any(minor < catalog.MODESET_MINOR for minor in nvidia) and catalog.CTL_MINOR not in nvidia:
        text = "the CDI device has no /dev/nvidiactl: programs will find no driver"
        warnings.append(f"{text} ({warn.MODPROBE}; then nvidia-ctk cdi generate, for a file)")
    edits = edits._replace(
        gpus=(*given, *cards), driver=host.driver if host else driver, simulated=simulated
    )
    return CdiEdits(edits, wanted, tuple(warnings))


def _other_vendors(
    asked: GpuOptions, wanted: tuple[str, ...], found: registry.CdiRegistry
) -> tuple[tuple[GivenGpu, ...], str]:
    """Describe the GPUs of other vendors that are asked for and that no file describes.

    Returns what the GPUs asked for are called, as far as the host tells, and the driver. Raises
    GPUError.
    """
    given: list[GivenGpu] = []
    driver = ""
    kinds = dict.fromkeys(name.partition("=")[0] for name in wanted)
    for kind in kinds:
        vendor = vendors.vendor_of_kind(kind)
        own = [name for name in wanted if name.startswith(f"{kind}=")]
        if not vendor or all(name in found.devices for name in own):
            continue
        cards = vendors.find_cards(vendor, asked.driver_root)
        driver = cards.driver
        found.add_made(vendors.spec(cards, mapped=asked.mapped))
        there = [name for name in wanted if name in found.devices]
        names = [name.partition("=")[2] for name in there if name.startswith(f"{kind}=")]
        edits = vendors.plan(cards, tuple(names))
        vendors.require_nodes(edits)
        given += edits.gpus
    return tuple(given), driver


def program() -> recipe.HookProgram:
    """Return minirun's own nvidia-cdi-hook, for hooks: this program, as it runs now.

    A link to it (nvidia-ctk → minirun) counts as what it leads to. Started as `python -m minirun`
    it has no path of its own; then it is the interpreter's.
    """
    path = lookup.this_program()
    if os.path.basename(path) == "minirun":
        return recipe.HookProgram(path, (path, HOOK))
    python = sys.executable
    return recipe.HookProgram(python, (python, "-I", "-m", "minirun", HOOK))


def _wrong(host: Inventory, gpus: bool) -> list[str]:
    """Return what is wrong with the host; `gpus`: any are wanted. Raises GPUError for the worst."""
    needs = NvidiaRequest(("all",) if gpus else (), DEFAULT_CAPABILITIES)
    return [str(one) for one in warn.refuse_fatal(warn.check(host, needs))]


def _make_spec(
    asked: GpuOptions, store: str, selector: GpuSelector, found: registry.CdiRegistry
) -> Inventory | None:
    """Make a spec of the host, which is returned, unless a file describes NVIDIA's GPUs."""
    wanted = asked.driver
    specs = found.of_kind(recipe.KIND)
    if any(not wanted or spec.simulated == (wanted == "simulated") for spec in specs):
        return None
    host = drivers.inventory(wanted or "auto", store, asked.driver_root, asked.dev_root)
    found.warnings += _wrong(host, selector.devices != ("none",))
    found.add_made(
        modes.spec("auto", host, recipe.CdiRecipe(program()), Finder(host.root, host.dev_root))
    )
    return host


def _names(
    selector: GpuSelector, found: registry.CdiRegistry, place: tuple[Settings, str]
) -> list[str]:
    """Return the devices that --gpus means. Raises GPUError where there are too few."""
    kind = recipe.KIND
    if not selector.amount:
        return [f"{kind}={device}" for device in selector.devices if device != "none"]
    there = [name.partition("=")[2] for name in found.devices if name.startswith(f"{kind}=")]
    indices = sorted(int(name) for name in there if name.isdigit())
    simulated = any(found.devices[f"{kind}={index}"].simulated for index in indices[:1])
    driver = "simulated" if simulated else "nvidia"
    hint = f"the CDI specs have {len(indices)}"
    chosen = count.choose(selector, [str(index) for index in indices], driver, place, hint)
    return [f"{kind}={index}" for index in chosen]


def _refuse(asked: GpuOptions, edits: Edits, simulated: bool) -> None:
    """Refuse what cannot be done. Raises GPUError."""
    if simulated and asked.driver == "nvidia":
        hint = "it is in a spec file that was made without a driver"
        raise GPUError("a CDI device is the simulated driver's", hint)
    if simulated and asked.mapped:
        hint = "no mknod there, and no node on the host to bind; legacy mode can"
        raise GPUError("no simulated gpu in a user namespace in cdi mode", hint)
    for key, value in (("netDevices", edits.net_devices), ("intelRdt", edits.intel_rdt)):
        if value:
            raise GPUError(f"a CDI device has {key}: minirun run cannot do that", "runc can")


def _host(simulated: bool, store: str) -> Inventory | None:
    """Return the inventory that tells what the GPUs are called; None without a driver."""
    try:
        return drivers.inventory("simulated" if simulated else "nvidia", store)
    except GPUError:
        return None
