"""The planner for NVIDIA: Inventory + Request + a few facts about the container → Edits.

It makes the steps in the order in which nvidia-container-cli works (nvc_mount.c): the view of
/proc/driver/nvidia, application profile, binaries, libraries and their links, firmware, sockets,
control nodes; then for each GPU its node and its entry in /proc; then MIG devices or the right to
configure them; then IMEX channels. Nothing is done here: the result can be printed, compared and
recorded before anything happens. Each step becomes one operation of minirun.gpu.operations, which
does it. What few containers ask for (minirun.gpu.nvidia.cli.compat, mig,
imex, require) is only imported for them.
"""

import os

from minirun.cgroups.rules import DeviceRule
from minirun.core import events
from minirun.core.record import Record
from minirun.core.rootfs.inroot import Root
from minirun.gpu import driverroot
from minirun.gpu.driverroot import PROC, proc_root
from minirun.gpu.edits import BindMount, DeviceNode, Edits, File, GivenGpu, Link, Tmpfs
from minirun.gpu.inventory import Gpu, HostFile, Inventory
from minirun.gpu.nvidia.cli.catalog import FABRICMANAGER, LINKS, PERSISTENCED
from minirun.gpu.request import NvidiaRequest
from minirun.gpu.select import choose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.gpu.edits import Step
    from minirun.gpu.nvidia.cli.compat import CompatFile

_MULTIARCH = {
    "x86_64": ("x86_64-linux-gnu", "i386-linux-gnu"),
    "aarch64": ("aarch64-linux-gnu", "arm-linux-gnueabihf"),
}
_CUDA = "/usr/local/cuda/compat"
_SOCKET = ("nosuid", "nodev", "noexec")
_PROC = ("ro", "nosuid", "nodev", "noexec")
_PROFILE_FOLDER = "/etc/nvidia/nvidia-application-profiles-rc.d"
_PROFILE = (
    '{ "profiles": [{"name": "_container_", "settings": ["EGLVisibleDGPUDevices", 0x%x]}], '
    '"rules": [{"pattern": [], "profile": "_container_"}]}'
)


class LibraryPlaces(Record):
    """Where libraries belong in the container, and which CUDA libraries its image brings."""

    libraries: str
    libraries32: str
    compat: "tuple[CompatFile, ...]" = ()
    """The image's own CUDA compatibility libraries, opened."""


def find_library_places(root: Root, request: "NvidiaRequest | None" = None) -> LibraryPlaces:
    """Return where the container keeps its libraries: as Debian does, or as all others do.

    With a `request` that has to do with them, open its CUDA compatibility libraries.
    Raises GPUError.
    """
    multiarch = _MULTIARCH.get(os.uname().machine)
    if multiarch and _has(root, "/etc/debian_version"):
        why = "the image has /etc/debian_version"
        container = LibraryPlaces(f"/usr/lib/{multiarch[0]}", f"/usr/lib/{multiarch[1]}")
    else:
        why = "the image has no /etc/debian_version"
        container = LibraryPlaces(
            "/usr/lib64", "/usr/lib32" if _has(root, "/usr/lib32") else "/usr/lib"
        )
    events.emit("note", "container library folder", {"path": container.libraries}, why=why)
    if request and "compute" in request.capabilities and _has(root, _CUDA):
        from minirun.gpu.nvidia.cli import compat

        if compat.is_needed(request):
            return container._replace(compat=compat.open_libraries(root, request.rootfs))
    return container


def _has(root: Root, path: str) -> bool:
    try:
        os.close(root.open(path))
    except OSError:
        return False
    return True


def _rules(steps: "list[Step]") -> "list[DeviceRule]":
    """Return the rules of the device nodes among `steps`."""
    nodes = (step for step in steps if isinstance(step, DeviceNode))
    return [DeviceRule(True, n.kind, n.major, n.minor, n.permissions) for n in nodes]


def plan(inventory: Inventory, request: NvidiaRequest, container: LibraryPlaces) -> Edits:
    """Return all that `request` adds to the container. Raises GPUError, OSError."""
    gpus = choose(inventory, request.devices)
    keys = request.mig_config or request.mig_monitor
    if keys:
        from minirun.gpu.nvidia.cli import mig  # few ask for what is imported late here

        mig.check(request, gpus)
        keys = " ".join(mig.requested_keys(request))
    if request.requirements:
        from minirun.gpu.nvidia.cli import require

        require.check(inventory, gpus, request.requirements)
    capabilities = frozenset(request.capabilities)

    steps: "list[Step]" = []
    if inventory.simulated:
        steps.append(Tmpfs("/proc/driver", mode=0o755))  # procfs has no nvidia to hide there
    steps.append(_proc_view(inventory))
    if "graphics" in capabilities:
        steps.append(_profile(gpus))
    steps += _files(inventory, inventory.binaries, capabilities, "/usr/bin")
    steps += _libraries(inventory, capabilities, container)
    folders: "tuple[str, ...]" = (container.libraries, container.libraries32)
    if container.compat:
        from minirun.gpu.nvidia.cli import compat

        more, found = compat.plan(container.compat, request, inventory.driver, folders[0])
        steps += more
        folders = (*found, *folders)
    if not request.no_gsp_firmware:
        steps += [BindMount(inventory.root + file.path, file.path) for file in inventory.firmware]
    steps += _sockets(inventory, request, capabilities)
    steps += _control_nodes(inventory, capabilities)
    for gpu in gpus:
        steps += _gpu(inventory, gpu)
    rules: "list[DeviceRule]" = []
    if keys:
        keyed, rules = mig.plan(inventory, request, gpus)
        steps += keyed
    else:
        for gpu in gpus:
            steps += _migs(inventory, gpu)
    if request.imex_channels:
        from minirun.gpu.nvidia.cli import imex

        steps += imex.plan(inventory, request.imex_channels)
    if request.no_devbind:
        rules = _rules(steps) + rules
        steps = [step for step in steps if not isinstance(step, DeviceNode)]
    return Edits(
        steps=tuple(steps),
        rules=tuple(rules),
        gpus=given_gpus(inventory, gpus),
        ldconfig=request.ldconfig,
        library_folders=folders,
        driver=inventory.driver,
        simulated=inventory.simulated,
        driver_root="" if inventory.simulated else inventory.root,
    )


def _wanted(needs: str, capabilities: "frozenset[str]") -> bool:
    return not needs or not capabilities.isdisjoint(needs.split())


def _proc_view(inventory: Inventory) -> Tmpfs:
    """Copies of the driver's files; the driver must not make nodes in a container by itself."""
    files = []
    base = proc_root(inventory.root)
    for name in ("params", "version", "registry"):
        try:
            data = driverroot.read(base, f"{PROC}/{name}")
        except FileNotFoundError:
            continue
        if name == "params":
            data = data.replace(b"ModifyDeviceFiles: 1", b"ModifyDeviceFiles: 0")
        files.append(File(f"{PROC}/{name}", data))
    return Tmpfs(PROC, tuple(files))


def _profile(gpus: "tuple[Gpu, ...]") -> Tmpfs:
    """Tell EGL which GPUs are the container's: a bit for each minor."""
    mask = sum(1 << gpu.minor for gpu in gpus)
    file = File(f"{_PROFILE_FOLDER}/10-container.conf", (_PROFILE % mask).encode(), 0o555)
    return Tmpfs(_PROFILE_FOLDER, (file,))


def _files(
    inventory: Inventory,
    files: "tuple[HostFile, ...]",
    capabilities: "frozenset[str]",
    folder: str,
) -> "list[BindMount]":
    """Mount those files that the capabilities bring, by their own names, in `folder`."""
    return [
        BindMount(inventory.root + file.path, f"{folder}/{file.path.rpartition('/')[2]}")
        for file in files
        if _wanted(file.needs, capabilities)
    ]


def _libraries(
    inventory: Inventory, capabilities: "frozenset[str]", container: LibraryPlaces
) -> "list[Step]":
    """Libraries, then the links beside them that ldconfig would not make."""
    steps: "list[Step]" = []
    pairs = [(inventory.libraries, container.libraries)]
    if "compat32" in capabilities:
        pairs.append((inventory.libraries32, container.libraries32))
    links: "list[Step]" = []
    for files, folder in pairs:
        mounts = _files(inventory, files, capabilities, folder)
        steps += mounts
        names = [mount.path.rpartition("/")[2] for mount in mounts]
        for library, link, target in LINKS:
            for name in names:
                if name.startswith(f"{library}."):
                    links.append(Link(target or name, f"{folder}/{link}"))
    return steps + links


def _sockets(
    inventory: Inventory, request: NvidiaRequest, capabilities: "frozenset[str]"
) -> "list[BindMount]":
    unwanted = []
    if request.no_persistenced:
        unwanted.append(f"/{PERSISTENCED}/")
    if request.no_fabricmanager:
        unwanted.append(f"/{FABRICMANAGER}/")
    return [
        BindMount(inventory.root + file.path, file.path, _SOCKET)
        for file in inventory.sockets
        if _wanted(file.needs, capabilities) and not any(name in file.path for name in unwanted)
    ]


def _node(inventory: Inventory, path: str, major: int, minor: int, mode: int = 0o666) -> DeviceNode:
    """A node: the host's own, bound; where the driver is simulated there is none to bind."""
    host_path = "" if inventory.simulated else inventory.root + path
    return DeviceNode(path, "c", major, minor, mode, host_path=host_path)


def _control_nodes(inventory: Inventory, capabilities: "frozenset[str]") -> "list[DeviceNode]":
    return [
        _node(inventory, node.path, node.major, node.minor)
        for node in inventory.nodes
        if _wanted(node.needs, capabilities)
    ]


def _gpu(inventory: Inventory, gpu: Gpu) -> "list[Step]":
    entry = f"gpus/{gpu.proc_name}"
    return [
        _node(inventory, gpu.node, inventory.major, gpu.minor),
        BindMount(f"{proc_root(inventory.root)}{PROC}/{entry}", f"{PROC}/{entry}", _PROC),
    ]


def _migs(inventory: Inventory, gpu: Gpu) -> "list[Step]":
    """A MIG device is two keys: access to its gpu instance, and to its compute instance."""
    steps: "list[Step]" = []
    base = proc_root(inventory.root) + PROC
    for mig in gpu.migs:
        instance = f"capabilities/gpu{gpu.minor}/mig/gi{mig.gi}"
        for folder, minor in ((instance, mig.gi_minor), (f"{instance}/ci{mig.ci}", mig.ci_minor)):
            path = f"/dev/nvidia-caps/nvidia-cap{minor}"
            steps += [
                BindMount(f"{base}/{folder}/access", f"{PROC}/{folder}/access", _PROC),
                _node(inventory, path, inventory.caps_major, minor, 0o444),
            ]
    return steps


def given_gpus(inventory: Inventory, gpus: "tuple[Gpu, ...]") -> "tuple[GivenGpu, ...]":
    """Name what the container gets: a whole GPU, or the MIG devices of one."""
    given = []
    for gpu in gpus:
        all_migs = inventory.gpus[[g.number for g in inventory.gpus].index(gpu.number)].migs
        for mig in gpu.migs:
            name = f"{gpu.number}:{all_migs.index(mig)}"
            given.append(GivenGpu(name, gpu.minor, mig.uuid, gpu.model))
        if not gpu.migs:
            given.append(GivenGpu(str(gpu.number), gpu.minor, gpu.uuid, gpu.model))
    return tuple(given)
