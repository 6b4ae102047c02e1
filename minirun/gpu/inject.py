"""Stage 5's work: what nvidia-container-cli does to the half-started container, in-line.

arguments → request (cli_args) → what the host has (inventory) → Edits (nvidia.cli.planner, or
vendors.plan) → put in, all or nothing (apply). The program of that name does the same from outside:
minirun.gpu.nvidia.cli.program.configure.
"""

import os

from minirun.core import events, extras
from minirun.core.config import Config, environment_of
from minirun.core.container import Container
from minirun.core.rootfs.inroot import Root
from minirun.core.settings import unprivileged
from minirun.gpu import apply, owner
from minirun.gpu.drivers import inventory
from minirun.gpu.inventory import Inventory, Notice
from minirun.gpu.nvidia.cli import cli_args, ldprogram, planner, warn
from minirun.gpu.nvidia.hook import hook_settings
from minirun.gpu.share import sharing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.cgroups import Cgroup
    from minirun.gpu.edits import Edits
    from minirun.gpu.request import NvidiaRequest
    from minirun.gpu.vendors import Cards

_NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")
"""If one of them is missing the driver is not ready: after boot none loads nvidia-uvm."""


def is_simulated(config: Config) -> bool:
    """Return True if the caller, or the environment of the hook, asks for the simulated driver.

    Without such a word it is the real one: an engine's container gets no other in its place.
    """
    chosen = config.choices.gpu_driver
    return chosen == "simulated" or (not chosen and bool(_simulation(config)))


def _simulation(config: Config) -> str:
    """Return what the environment of the in-line hook says of the simulated driver ($MINIRUN_SIM).

    An engine hands its hooks its whole environment: there it is asked for explicitly. Hooks come
    from the engine's own configuration, never from an image.
    """
    for _, _, hook in config.hooks_of_stage_3():
        simulation = environment_of(hook.get("env")).get("MINIRUN_SIM")
        if simulation and config.in_line(hook):
            return simulation
    return ""


def put_in(container: Container, argv: "list[str]", pid: int) -> "Edits":
    """Do what `argv` says to the container whose init is `pid`; return what was done.

    Afterwards this process is in the container's mount namespace for good.
    Raises GPUError, UsageError, OSError.
    """
    request = cli_args.parse(argv).request
    found = _find_host(container, request)
    if isinstance(found, Inventory):
        warn.report_notices(warn.check(found, request))
    return configure(
        request, found=found, pid=pid, cgroup=container.cgroup,
        ldconfig_fd=ldprogram.open_host(request.ldconfig),
        before=lambda edits: sharing.record_holders(container, edits.gpus, edits.simulated),
    )  # fmt: skip


def plan_edits(container: Container, argv: "list[str]", root: Root) -> "Edits":
    """Return what :func:`put_in` would do to a container whose root filesystem is `root`.

    Raises GPUError, UsageError, OSError.
    """
    request = cli_args.parse(argv).request
    return _plan(_find_host(container, request), request, root)


def _find_host(container: Container, request: "NvidiaRequest") -> "Inventory | Cards":
    """Return what GPUs and driver files the host has. Raises GPUError, OSError."""
    config, store = container.config, container.settings.store
    chosen = config.choices
    if vendor := extras.gpu_vendor(config):
        from minirun.gpu import vendors  # of few containers

        return vendors.find_cards(vendor, chosen.driver_root)
    if is_simulated(config):
        return inventory("simulated", store, simulation=_simulation(config))
    root, cache = hook_settings.driver_place(chosen)
    if request.load_kmods and (chosen.load_kmods or not _has_nodes(root)):
        _load_modules(root, request)
    return inventory(chosen.gpu_driver or "nvidia", store, root, cache)


def _has_nodes(root: str) -> bool:
    """Return True if the driver's nodes are there: it is complete, and nothing is to be loaded."""
    return all(os.path.exists(root + path) for path in _NODES)


def _load_modules(root: str, request: "NvidiaRequest") -> None:
    """Load what is missing of the real driver, and make its nodes. Raises GPUError."""
    from minirun.gpu.nvidia.cli import kmods  # once after boot

    channels = () if request.no_create_imex_channels else request.imex_channels
    if missing := kmods.load(root, channels, _log):
        text = f"could not load kernel module {', '.join(missing)}"
        hint = "modprobe -v says why; it must be of the running kernel, and no other driver's"
        warn.report_notices([Notice(text, hint)])


def _log(text: str) -> None:
    events.emit("note", "kernel modules", {"text": text}, why="as nvidia-modprobe would")


def configure(
    request: "NvidiaRequest",
    *,
    found: "Inventory | Cards",
    pid: int,
    cgroup: "Cgroup | None",
    ldconfig_fd: int,
    before: "Callable[[Edits], None]" = lambda _: None,
) -> "Edits":
    """Plan the edits, and put them into the container of `pid`; return them.

    `found` is what the host has, `ldconfig_fd` its ldconfig: all that is of the host is opened
    before entering. `before` is called with what will be done, and may refuse it.
    Raises GPUError, OSError.
    """
    belongs_to = owner.enter(pid) if unprivileged() else owner.container_owner(pid)
    join = extras.cgroup_entrance(pid)
    apply.enter(pid)
    root = Root.at(request.rootfs)
    edits = _plan(found, request, root)
    before(edits)
    rules = None if request.no_cgroups else cgroup
    owner.become(belongs_to)
    apply.apply(edits, root, rules, ldconfig_fd, request.rootfs, belongs_to=belongs_to, join=join)
    owner.give_up(belongs_to)
    return edits


def _plan(found: "Inventory | Cards", request: "NvidiaRequest", root: Root) -> "Edits":
    """Let the vendor's planner make the edits. Raises GPUError, OSError."""
    if isinstance(found, Inventory):
        return planner.plan(found, request, planner.find_library_places(root, request))
    from minirun.gpu import vendors  # of few containers

    return vendors.plan(found, request)
