"""Stage 5: nvidia-container-cli's work, in-line: the GPUs go into the half-started container.

It enters the container's mount namespace, as the real one does: the mounts are made, pivot_root
has not happened, and init waits.
"""

import os

from minirun.core import events, jsonlite, places, state
from minirun.core.container import Container
from minirun.gpu import apply
from minirun.gpu.inventory import Inventory, inventory
from minirun.gpu.nvidia.cli import cli_args, ldprogram, warn
from minirun.gpu.nvidia.hook import hook_settings
from minirun.gpu.share import sharing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.gpu.request import NvidiaRequest
    from minirun.gpu.vendors import Cards

_NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")
"""If one of them is missing the driver is not ready: after boot none loads nvidia-uvm."""


def cli(container: Container, argv: "list[str]", pid: int) -> None:
    """Do what `argv` says to the container whose init is `pid`; write edits.json.

    Raises GPUError, OSError.
    """
    driver = _driver(container)
    if driver == "simulated":
        events.mark("SIMULATED")
    why = "device nodes, libraries, binaries, /proc/driver/nvidia, cgroup rules, ldconfig"
    with events.stage(5, "cli", "put the GPUs in", why=why):
        request = cli_args.parse(argv).request
        if request.load_kmods and driver == "nvidia":
            _load_modules(container, request)
        found = _host(container, driver)
        if isinstance(found, Inventory):
            warn.report_notices(warn.check(found, request))
        edits = apply.configure(
            request, found=found, pid=pid, cgroup=container.cgroup,
            ldconfig_fd=ldprogram.open_host(request.ldconfig),
            before=lambda edits: sharing.record_holders(container, edits.gpus, edits.simulated),
        )  # fmt: skip
        state.write(places.edits_json(container.directory), jsonlite.dumps(apply.record(edits)))


def _driver(container: Container) -> str:
    """Return which driver is asked for; the real one, unless the simulated one is asked for."""
    chosen = container.config.choices.gpu_driver
    return chosen or ("simulated" if container.config.simulation else "nvidia")


def _host(container: Container, driver: str) -> "Inventory | Cards":
    """Return what GPUs and driver files the host has. Raises GPUError, OSError."""
    config, store = container.config, container.settings.store
    if config.gpu_vendor:
        from minirun.gpu import vendors

        return vendors.find_cards(config.gpu_vendor, config.choices.driver_root)
    if driver == "simulated":
        return inventory(driver, store, simulation=config.simulation)
    root, cache = hook_settings.driver_place(config.choices)
    return inventory(driver, store, root, cache)


def _load_modules(container: Container, request: "NvidiaRequest") -> None:
    """Load what is missing of the real driver, and make its nodes. Raises GPUError.

    A driver whose nodes are there is complete, unless the caller asks for loading (--load-kmods).
    """
    from minirun.gpu.nvidia.cli import kmods

    chosen = container.config.choices
    root, _ = hook_settings.driver_place(chosen)
    if not chosen.load_kmods and all(os.path.exists(root + path) for path in _NODES):
        return
    channels = () if request.no_create_imex_channels else request.imex_channels
    if missing := kmods.load(root, channels, _tell):
        text = f"could not load kernel module {', '.join(missing)}"
        hint = "modprobe -v says why; it must be of the running kernel, and no other driver's"
        warn.report_notices([warn.Notice(text, hint)])


def _tell(text: str) -> None:
    events.emit("note", "kernel modules", {"text": text}, why="as nvidia-modprobe would")
