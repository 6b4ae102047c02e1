"""Stage 5: nvidia-container-cli's work, in-line: the GPUs go into the half-started container.

It enters the container's mount namespace, as the real one does: the mounts are made, pivot_root
has not happened, and init waits.
"""

import os

from minirun.core import events, jsonlite, places, state
from minirun.core.container import Container
from minirun.core.errors import GPUError
from minirun.core.rootfs import initlayer
from minirun.core.rootfs.inroot import Root
from minirun.gpu import apply, select
from minirun.gpu.inventory import Inventory, inventory
from minirun.gpu.nvidia.cli import cli_args, ldprogram, warn
from minirun.gpu.nvidia.cli import planner as nvidia
from minirun.gpu.nvidia.hook import command_line as nvidia_hook
from minirun.gpu.nvidia.hook import hook_settings
from minirun.gpu.share import sharing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.rootfs.initlayer import InitLayer
    from minirun.gpu.edits import Edits
    from minirun.gpu.request import NvidiaRequest

_NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")
"""Where one of them is missing the driver is not ready: after boot nobody loads nvidia-uvm."""


def look(container: Container) -> Inventory:
    """Return what NVIDIA GPUs and driver files the host has. Raises GPUError, OSError."""
    driver = _driver(container)
    if driver == "simulated":
        return inventory(driver, container.settings.store)
    root, cache = hook_settings.driver_place(container.config.choices)
    return inventory(driver, container.settings.store, root, cache)


def _driver(container: Container) -> str:
    """Which driver is asked for; the real one, where nobody asks for the simulated one."""
    if simulation := container.config.simulation:
        os.environ["MINIRUN_SIM"] = simulation
    named = container.config.choices.gpu_driver
    return named or ("simulated" if simulation else "nvidia")


def look_early(container: Container) -> None:
    """Look, before stage 5 has its turn, unless that has modules of NVIDIA's to load first.

    Then it is known as well which GPUs the container will get: that is written down at once, while
    this process has nothing else to do. Raises GPUError, OSError.
    """
    if container.inventory:  # another vendor's
        return
    chosen = container.config.choices
    if _driver(container) != "simulated":
        root, _ = hook_settings.driver_place(chosen)
        complete = all(os.path.exists(root + path) for path in _NODES)
        if not complete or chosen.load_kmods:
            return
    container.inventory = found = look(container)
    asked = nvidia_hook.request(container.config.raw, hook_settings.settings(chosen))
    try:
        gpus = select.choose(found, asked.devices if asked else ())
    except GPUError:
        return  # stage 5 will say so
    sharing.record_holders(container, nvidia.given_gpus(found, gpus), found.simulated)
    container.gpus_claimed = True


def _load_modules(container: Container, request: "NvidiaRequest") -> None:
    """Load what is missing of the real driver, and make its nodes. Raises GPUError."""
    from minirun.gpu.nvidia.cli import kmods

    root, _ = hook_settings.driver_place(container.config.choices)
    channels = () if request.no_create_imex_channels else request.imex_channels
    if missing := kmods.load(root, channels, _tell):
        text = f"could not load kernel module {', '.join(missing)}"
        hint = "modprobe -v says why; it must be of the running kernel, and no other driver's"
        warn.report_notices([warn.Notice(text, hint)])


def _tell(text: str) -> None:
    events.emit("note", "kernel modules", {"text": text}, why="as nvidia-modprobe would")


def _before(container: Container, edits: "Edits", root: Root, ldconfig_fd: int) -> bool:
    """Claim the GPUs, unless it is done, and see whether the init layer is right for their files.

    Return whether it is: then it has what ldconfig makes. Raises GPUError, OSError.
    """
    if not container.gpus_claimed:
        sharing.record_holders(container, edits.gpus, edits.simulated)
    layer = container.init_layer
    if not layer:
        return False
    if layer.made_for == initlayer.needs(edits, ldconfig_fd):
        why = "image, libraries and ldconfig are as they were when it was made: see init layer"
        events.emit("note", "ld.so.cache kept", {"file": layer.file}, why=why)
        return True
    from minirun.gpu import mountpoints

    mountpoints.forget(layer, root, "the driver's files are others by now")
    return False


def nothing(layer: "InitLayer", pid: int, rootfs: str) -> None:
    """Take the init layer's names away: the toolkit's config.toml refuses what was wished for.

    Raises OSError.
    """
    from minirun.gpu import mountpoints

    apply.enter(pid)
    mountpoints.forget(layer, Root.at(rootfs), "the container gets no GPU")


def cli(container: Container, argv: "list[str]", pid: int) -> None:
    """Do what `argv` says to the container whose init is `pid`; write edits.json.

    Raises GPUError, OSError.
    """
    found = container.inventory
    if found and found.simulated:
        events.mark("SIMULATED")
    why = "device nodes, libraries, binaries, /proc/driver/nvidia, cgroup rules, ldconfig"
    with events.stage(5, "cli", "put the GPUs in", why=why):
        request = cli_args.parse(argv).request
        if not found:
            if request.load_kmods:
                _load_modules(container, request)
            found = look(container)
        if isinstance(found, Inventory):
            warn.report_notices(warn.check(found, request))
        ldconfig_fd = ldprogram.open_host(request.ldconfig)
        edits = apply.configure(
            request, found=found, pid=pid, cgroup=container.cgroup, ldconfig_fd=ldconfig_fd,
            undo_failure=not container.config.layers,
            before=lambda edits, root: _before(container, edits, root, ldconfig_fd),
        )  # fmt: skip
        if not container.init_layer and isinstance(found, Inventory):
            from minirun.gpu import mountpoints

            mountpoints.remember(container, edits, ldconfig_fd)
        state.write(places.edits_json(container.directory), jsonlite.dumps(apply.record(edits)))
