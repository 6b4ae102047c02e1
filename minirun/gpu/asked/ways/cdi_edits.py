"""The names of CDI devices → the edits that go into config.json.

They come out of the specs in /etc/cdi and /var/run/cdi. Where --gpus asks for a kind of which no
spec is there, one is made from the inventory in memory. That is what nvidia-container-runtime does
by default since 1.18 ("jit-cdi"): there, too, the devices' edits come before the common ones.
"""

from __future__ import annotations

from minirun.core.errors import GPUError
from minirun.core.keeping.numbers import whole
from minirun.gpu import drivers
from minirun.gpu.asked.request import DEFAULT_CAPABILITIES, GpuOptions, NvidiaRequest
from minirun.gpu.asked.ways.records import CdiEdits, GpuRequest
from minirun.gpu.cdi import inject, registry, stale
from minirun.gpu.edits import Edits, GivenGpu
from minirun.gpu.nvidia.cli import planner, warn
from minirun.gpu.nvidia.shared import catalog
from minirun.gpu.nvidia.shared.find import Finder
from minirun.gpu.nvidia.specs import modes, recipe
from minirun.gpu.share import count
from minirun.gpu.vendors import discovery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.gpu.inventory import Inventory


def resolve(request: GpuRequest, devices: tuple[str, ...]) -> CdiEdits:
    """Return what the selector (of --gpus, in cdi mode) and the full names `devices` mean here.

    Raises GPUError, UsageError, OSError.
    """
    asked, selector, store = request.flags, request.selector, request.settings.store
    found = registry.load(asked.spec_dirs or registry.FOLDERS)
    warnings = found.warnings
    wanted, host = devices, None
    if not selector.is_empty:
        host = _make_spec(asked, store, found, gpus=selector.devices != ("none",))
        wanted = (*_names(request, found), *devices)
        if selector.capabilities:
            warnings.append("--gpus capabilities=… counts in legacy mode only: cdi gives them all")
    wanted = tuple(dict.fromkeys(wanted))
    cards, driver = _other_vendors(asked, wanted, found)
    parts = found.edits(wanted)
    if selector.devices == ("none",):
        parts += found.control_nodes(recipe.KIND)
    edits = inject.complete(inject.join(parts))
    used = [found.devices[name] for name in wanted]
    warnings += stale.warnings(used)
    simulated = any(spec.simulated for spec in used) or bool(host and host.simulated)
    _refuse(asked, edits, simulated)
    if host is None and any(spec.raw["kind"] == recipe.KIND for spec in used):
        host = _host(simulated, store)
        warnings += _wrong(host, bool(wanted), ()) if host else []  # libraries: those of the file
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
        vendor = discovery.vendor_of_kind(kind)
        own = [name for name in wanted if name.startswith(f"{kind}=")]
        if not vendor or all(name in found.devices for name in own):
            continue
        cards = discovery.find_cards(vendor, asked.driver_root)
        driver = cards.driver
        found.add_made(discovery.spec(cards, mapped=asked.mapped))
        there = [name for name in wanted if name in found.devices]
        names = [name.partition("=")[2] for name in there if name.startswith(f"{kind}=")]
        edits = discovery.plan(cards, tuple(names))
        discovery.require_nodes(edits)
        given += edits.gpus
    return tuple(given), driver


def _wrong(
    host: Inventory, gpus: bool, capabilities: tuple[str, ...] = DEFAULT_CAPABILITIES
) -> list[str]:
    """Return what is wrong with the host; `gpus`: any are wanted. Raises GPUError for the worst.

    The host's libraries are looked for by `capabilities`. A spec file names its own, which lie
    where no ld.so.cache has them if the driver has a root of its own (COS, NixOS).
    """
    needs = NvidiaRequest(("all",) if gpus else (), capabilities)
    return [str(one) for one in warn.refuse_fatal(warn.check(host, needs))]


def _make_spec(
    asked: GpuOptions, store: str, found: registry.CdiRegistry, *, gpus: bool
) -> Inventory | None:
    """Make a spec of the host, which is returned, unless a file describes NVIDIA's GPUs."""
    wanted = asked.driver
    specs = found.of_kind(recipe.KIND)
    if any(not wanted or spec.simulated == (wanted == "simulated") for spec in specs):
        return None
    host = drivers.inventory(wanted or "auto", store, asked.driver_root, asked.dev_root)
    found.warnings += _wrong(host, gpus)
    how = recipe.CdiRecipe(recipe.own_program())
    found.add_made(modes.spec("auto", host, how, Finder(host.root, host.dev_root)))
    return host


def _names(request: GpuRequest, found: registry.CdiRegistry) -> list[str]:
    """Return the devices that --gpus means. Raises GPUError where there are too few."""
    kind, selector = recipe.KIND, request.selector
    if not selector.amount:
        return [f"{kind}={device}" for device in selector.devices if device != "none"]
    there = [name.partition("=")[2] for name in found.devices if name.startswith(f"{kind}=")]
    indices = sorted(number for name in there if (number := whole(name)) is not None)
    simulated = any(found.devices[f"{kind}={index}"].simulated for index in indices[:1])
    driver = "simulated" if simulated else "nvidia"
    hint = f"the CDI specs have {len(indices)}"
    place = (request.settings, request.container_id)
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
