"""Stage 5's work: what nvidia-container-cli does to the half-started container, in-line.

arguments → request (nvidia.hook) → what the host has (simulated, or nvidia.cli.host) → Edits
(nvidia.cli.planner) → put in, all or nothing (apply). The program of that name does the same from
outside: minirun.gpu.nvidia.cli.program.configure.
"""

from __future__ import annotations

import os

from minirun.core import events, rings
from minirun.core.config import Config, environment_of
from minirun.core.container import Container
from minirun.core.keeping import places, visible
from minirun.core.lazy import lazy
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.own_root import OwnRoot
from minirun.gpu import apply, ldconfig, share, simulated
from minirun.gpu.asked.request import UnmetRequirement
from minirun.gpu.inventory import Inventory
from minirun.gpu.nvidia import hook
from minirun.gpu.nvidia.cli import musl, planner
from minirun.gpu.target import Target

with lazy:
    from minirun.gpu.nvidia.cli import host  # only for a real driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.core.cgroup import OwnCgroup
    from minirun.gpu.asked.request import NvidiaRequest
    from minirun.gpu.edits import Edits


def is_simulated(config: Config) -> bool:
    """Return True if the caller, or the environment of the hook, asks for the simulated driver.

    If neither does, it is the real one: an engine's container gets no other in its place.
    """
    chosen = config.choices.gpu_driver
    return chosen == "simulated" or (not chosen and bool(_simulation(config)))


def _simulation(config: Config) -> str:
    """Return the simulation that the environment of the in-line hook names ($MINIRUN_SIM), or "".

    The variable has to stand in the hook's own row of config.json. An engine takes its hooks from
    its own configuration, never from an image.
    """
    for _, _, row in config.hooks_of_stage_3():
        simulation = environment_of(row.get("env")).get("MINIRUN_SIM")
        if simulation and config.in_line(row):
            return simulation
    return ""


def put_in(container: Container, argv: list[str], pid: int) -> Edits:
    """Do what `argv` asks for in the container whose init is `pid`; return the edits.

    This process is in init's mount namespace then. Raises GPUError, UsageError, OSError.
    """
    request = hook.read(argv)
    try:
        return configure(
            request, found=_find_host(container, request), pid=pid, cgroup=container.cgroup,
            before=lambda edits: share.record_holders(container, edits.gpus, edits.simulated),
            own_folders=_volumes(container),
        )  # fmt: skip
    except UnmetRequirement as error:
        raise error.explained(container.record, container.config.environment) from None


def _volumes(container: Container) -> tuple[str, ...]:
    """Return the folders of the volumes that the image declares: they go with the container."""
    folder = f"{container.directory}/{places.VOLUMES}"
    try:
        return tuple(f"{folder}/{name}" for name in os.listdir(folder))
    except FileNotFoundError:
        return ()


def plan_edits(container: Container, argv: list[str], root: Root) -> Edits:
    """Return what :func:`put_in` would do in the root filesystem `root`. Raises the same."""
    request = hook.read(argv)
    return _plan(_find_host(container, request), request, root)


def _find_host(container: Container, request: NvidiaRequest) -> Inventory:
    """Return what GPUs and driver files the host has. Raises GPUError, OSError."""
    config, store = container.config, container.settings.store
    if is_simulated(config):
        return simulated.inventory(store, _simulation(config))
    options = hook.settings(config.choices).options
    return host.find(options, request, config.choices)


def configure(
    request: NvidiaRequest,
    *,
    found: Inventory,
    pid: int,
    cgroup: OwnCgroup | None,
    before: Callable[[Edits], None] = lambda _: None,
    own_folders: tuple[str, ...] = (),
) -> Edits:
    """Plan the edits, and put them into the container of `pid`; return them.

    `found` is what the host has. Files of the host are opened before entering. `before` is
    called with the edits before they are made, and may raise. `own_folders` are folders of the
    host that belong to this container alone. Raises GPUError, OSError.
    """
    program = ldconfig.open_host(request.ldconfig)
    entrance = rings.cgroup_entrance(pid)
    owner = apply.enter(pid)
    root = OwnRoot(Root.at(request.rootfs).fd, own_folders)
    edits = _plan(found, request, root)._replace(no_cgroups=request.no_cgroups)
    before(edits)
    for path in planner.own_libraries(root, edits):
        text = f"the image has its own {path}, which hides the driver's"
        events.emit("note", "warning", {"text": text}, why=planner.REMOVE)
        visible.warn(f"{text} ({planner.REMOVE})")
    if text := musl.misfit(root, edits):
        events.emit("note", "warning", {"text": text}, why=musl.ADVICE)
        visible.warn(f"{text} ({musl.ADVICE})")
    rules = None if request.no_cgroups else cgroup
    target = Target(root, request.rootfs, program, owner, entrance, rules)
    apply.apply(edits, target)
    return edits


def _plan(found: Inventory, request: NvidiaRequest, root: Root) -> Edits:
    """Let the planner make the edits. Raises GPUError, OSError."""
    return planner.plan(found, request, planner.find_library_places(root, request))
