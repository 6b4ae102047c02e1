"""The planner for NVIDIA: Inventory + NvidiaRequest + a few facts about the container → Edits.

It makes the steps in the order in which nvidia-container-cli works (nvc_mount.c): the view of
/proc/driver/nvidia, application profile, binaries, libraries and their links, firmware, sockets,
control nodes; then for each GPU its node and its entry in /proc; then MIG devices or the right to
configure them; then IMEX channels. Nothing is done here: the result can be printed, compared and
recorded before anything happens. What few containers ask for is only imported for them.
"""

from __future__ import annotations

from minirun.core import events
from minirun.core.keeping.record import Record
from minirun.core.kernel.architecture import NARROW, NATIVE
from minirun.core.lazy import lazy
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.operations import WriteFile
from minirun.core.rootfs.own_root import has
from minirun.gpu import driverroot
from minirun.gpu.apply import resolve
from minirun.gpu.asked.request import NvidiaRequest
from minirun.gpu.asked.select import choose
from minirun.gpu.driverroot import PROC, proc_root
from minirun.gpu.edits import Edits, GivenGpu
from minirun.gpu.inventory import Gpu, HostFile, Inventory
from minirun.gpu.nvidia.cli.nodes import PROC_FILE, node_of
from minirun.gpu.steps import BindMount, DeviceNode, Link, Tmpfs

with lazy:  # few containers ask for one of these
    from minirun.gpu.nvidia.cli import compat, imex, mig, require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.cgroups.rules import DeviceRule
    from minirun.gpu.nvidia.cli.compat import CompatFile
    from minirun.gpu.steps import Step

LINKS = (
    ("libcuda.so", "libcuda.so", "libcuda.so.1"),
    ("libnvidia-opticalflow.so", "libnvidia-opticalflow.so", "libnvidia-opticalflow.so.1"),
    ("libGLX_nvidia.so", "libGLX_indirect.so.0", ""),
)
"""(library, name of a link beside it, the link's target: empty for the library's own file)."""
_CUDA = "/usr/local/cuda/compat"
REMOVE = "remove it from the image; a program that needs one finds the driver's then"
_SOCKET = ("nosuid", "nodev", "noexec")
_PROFILE_FOLDER = "/etc/nvidia/nvidia-application-profiles-rc.d"
_PROFILE = (
    '{ "profiles": [{"name": "_container_", "settings": ["EGLVisibleDGPUDevices", 0x%x]}], '
    '"rules": [{"pattern": [], "profile": "_container_"}]}'
)


class LibraryPlaces(Record):
    """The container's folders for libraries, and the CUDA libraries that its image brings."""

    libraries: str
    libraries32: str
    """ "" if a machine has none of 32 bits beside its own."""
    compat: tuple[CompatFile, ...] = ()
    """The image's own CUDA compatibility libraries, opened."""


def find_library_places(root: Root, request: NvidiaRequest) -> LibraryPlaces:
    """Return the container's library folders: as Debian has them, or as other images do.

    If `request` is for compute, it opens the image's CUDA compatibility libraries. Raises GPUError.
    """
    if has(root, "/etc/debian_version"):
        why = "the image has /etc/debian_version"
        folder32 = f"/usr/lib/{NARROW.triplet}" if NARROW else ""
        container = LibraryPlaces(f"/usr/lib/{NATIVE.triplet}", folder32)
    elif NATIVE.bits == 32:
        why = "the image has no /etc/debian_version, and the machine 32 bits"
        container = LibraryPlaces("/usr/lib", "")
    else:
        why = "the image has no /etc/debian_version"
        folders = [resolve(root, f"/usr/{name}", {})[0] for name in ("lib", "lib64")]
        plain = folders[0] != folders[1] and has(root, "/usr/lib") and not has(root, "/usr/lib32")
        folder32 = "/usr/lib" if plain else "/usr/lib32"
        container = LibraryPlaces("/usr/lib64", folder32)
    events.emit("note", "container library folder", {"path": container.libraries}, why=why)
    if "compute" in request.capabilities and has(root, _CUDA):
        return container._replace(compat=compat.open_libraries(root, request))
    return container


def plan(inventory: Inventory, request: NvidiaRequest, container: LibraryPlaces) -> Edits:
    """Return all that `request` adds to the container. Raises GPUError, OSError."""
    gpus = choose(inventory, request.devices)
    there = {"gpus": [str(gpu.number) for gpu in gpus], "of": len(inventory.gpus)}
    events.emit("note", "gpus chosen", there, why="by what --device names")
    has_mig = request.mig_config or request.mig_monitor or any(gpu.migs for gpu in gpus)
    if has_mig:
        mig.check(request, gpus)
    if request.requirements:
        require.check(inventory, gpus, request.requirements)
    steps, folders = _driver_files(inventory, request, gpus, container)
    for gpu in gpus if not inventory.store else ():
        steps += _gpu(inventory, gpu)
    if gpus:
        steps += [BindMount(file.path, file.path) for file in inventory.store]
    rules: list[DeviceRule] = []
    if has_mig:
        more, rules = mig.plan(inventory, request, gpus)
        steps += more
    if request.imex_channels:
        steps += imex.plan(inventory, request.imex_channels)
    edits = Edits(
        steps=tuple(steps),
        rules=tuple(rules),
        gpus=given_gpus(inventory, gpus),
        ldconfig=request.ldconfig,
        library_folders=folders,
        driver=inventory.driver,
        simulated=inventory.simulated,
        driver_root="" if inventory.simulated else inventory.root,
    )
    if request.no_devbind:
        kept = tuple(step for step in steps if not isinstance(step, DeviceNode))
        return edits._replace(steps=kept, rules=tuple(edits.device_rules()))
    return edits


def _driver_files(
    inventory: Inventory,
    request: NvidiaRequest,
    gpus: tuple[Gpu, ...],
    container: LibraryPlaces,
) -> tuple[list[Step], tuple[str, ...]]:
    """Return the steps for all files but the GPUs', and the folders for ldconfig."""
    capabilities = frozenset(request.capabilities)
    steps: list[Step] = []
    if inventory.simulated:
        steps.append(Tmpfs("/proc/driver", mode=0o755))  # procfs has no nvidia to hide there
    if not inventory.store:
        steps.append(_proc_view(inventory))
    if capabilities & {"graphics", "display"} and not inventory.store:
        steps.append(_profile(gpus))
    steps += _files(inventory, inventory.binaries, capabilities, "/usr/bin")
    steps += _libraries(inventory, capabilities, container)
    folders = tuple(filter(None, (container.libraries, container.libraries32)))
    if container.compat:
        more, found = compat.plan(container.compat, request, inventory.driver, container.libraries)
        steps += more
        folders = (*found, *folders)
    if not request.no_gsp_firmware:
        steps += [BindMount(inventory.root + file.path, file.path) for file in inventory.firmware]
    steps += [
        BindMount(inventory.root + file.path, file.path, _SOCKET)
        for file in inventory.sockets
        if file.is_needed(capabilities) and not request.leaves_out(file.path)
    ]
    steps += [
        node_of(inventory, node.path, node.major, node.minor)
        for node in inventory.nodes
        if not node.needs or capabilities & {*node.needs.split()}
    ]
    return steps, folders


def _proc_view(inventory: Inventory) -> Tmpfs:
    """Return copies of the driver's files, changed so that it makes no nodes in a container."""
    files = []
    base = proc_root(inventory.root)
    for name in ("params", "version", "registry"):
        found = driverroot.status(base, f"{PROC}/{name}")
        if not found:
            continue
        data = driverroot.read(base, f"{PROC}/{name}")
        if name == "params":
            data = data.replace(b"ModifyDeviceFiles: 1", b"ModifyDeviceFiles: 0")
        files.append(WriteFile(f"{PROC}/{name}", data, found.st_mode & 0o777))
    return Tmpfs(PROC, tuple(files))


def own_libraries(root: Root, edits: Edits) -> list[str]:
    """Return the image's files that have the name of a link which ldconfig makes for the driver.

    The loader takes such a file, which the image brought, and not the library beside it.
    """
    names = [mount.path.partition(".so.")[0] for mount in edits.mounts]
    paths = [f"{name}.so.1" for name in names if name.endswith(("/libcuda", "/libnvidia-ml"))]
    mounted = {mount.path for mount in edits.mounts}
    return [p for p in paths if p not in mounted and driverroot.link_target(root, p) == ""]


def _profile(gpus: tuple[Gpu, ...]) -> Tmpfs:
    """Return the profile that lists the container's GPUs for EGL: a bit for each minor.

    Without a GPU its folder stays empty: with no profile EGL takes what there is.
    """
    if not gpus:
        return Tmpfs(_PROFILE_FOLDER)
    mask = sum(1 << gpu.minor for gpu in gpus)
    path = f"{_PROFILE_FOLDER}/10-container.conf"
    return Tmpfs(_PROFILE_FOLDER, (WriteFile(path, (_PROFILE % mask).encode(), 0o555),))


def _files(
    inventory: Inventory,
    files: tuple[HostFile, ...],
    capabilities: frozenset[str],
    folder: str,
) -> list[BindMount]:
    """Mount those files that the capabilities bring, by their own names, in `folder`."""
    return [
        BindMount(inventory.root + file.path, f"{folder}/{file.path.rpartition('/')[2]}")
        for file in files
        if file.is_needed(capabilities)
    ]


def _libraries(
    inventory: Inventory, capabilities: frozenset[str], container: LibraryPlaces
) -> list[Step]:
    """Libraries, then the links beside them that ldconfig would not make."""
    steps: list[Step] = []
    links: list[Step] = []
    pairs = [(inventory.libraries, container.libraries)]
    if "compat32" in capabilities:
        pairs.append((inventory.libraries32, container.libraries32))
    for files, folder in pairs:
        mounts = _files(inventory, files, capabilities, folder)
        steps += mounts
        names = [mount.path.rpartition("/")[2] for mount in mounts]
        for library, link, target in LINKS:
            there = [name for name in names if name.startswith(f"{library}.")]
            links += [Link(target or name, f"{folder}/{link}") for name in there]
    return steps + links


def _gpu(inventory: Inventory, gpu: Gpu) -> list[Step]:
    """Return the steps for one GPU: its node, and its folder below /proc/driver/nvidia."""
    base = proc_root(inventory.root)
    entry = f"{PROC}/gpus/{gpu.bus_id.lower()}"  # so with a module that shows the whole domain
    if not driverroot.exists(base, entry):
        entry = f"{PROC}/gpus/{gpu.proc_name}"
    return [
        node_of(inventory, gpu.node, inventory.major, gpu.minor),
        BindMount(base + entry, entry, PROC_FILE),
    ]


def gpus_of_nodes(
    inventory: Inventory, numbers: frozenset[tuple[int, int]]
) -> tuple[GivenGpu, ...]:
    """Name the GPUs and MIG devices whose nodes, by major and minor, are among `numbers`."""
    gpus = [gpu for gpu in inventory.gpus if (inventory.major, gpu.minor) in numbers]
    chosen = [
        gpu._replace(
            migs=tuple(mig for mig in gpu.migs if (inventory.caps_major, mig.ci_minor) in numbers)
        )
        for gpu in gpus
    ]
    return given_gpus(inventory, tuple(chosen))


def given_gpus(inventory: Inventory, gpus: tuple[Gpu, ...]) -> tuple[GivenGpu, ...]:
    """Return a record of each whole GPU, or of each chosen MIG device, that the container gets."""
    all_migs = {gpu.number: gpu.migs for gpu in inventory.gpus}
    given = []
    for gpu in gpus:
        for mig in gpu.migs:
            name = f"{gpu.number}:{all_migs[gpu.number].index(mig)}"
            given.append(GivenGpu(name, gpu.minor, mig.uuid, gpu.model))
        if not gpu.migs:
            given.append(GivenGpu(str(gpu.number), gpu.minor, gpu.uuid, gpu.model))
    return tuple(given)
