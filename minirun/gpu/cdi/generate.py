"""The host's inventory → a CDI spec, as `nvidia-ctk cdi generate` (1.20) makes it.

A device for each GPU under its index and its UUID, for each MIG device likewise, and one called
`all`; what every container gets besides stands in the spec's own edits: control nodes, every
library (capabilities are not asked for in this mode), binaries, firmware, sockets. Links and
ld.so.cache are beyond config.json, so three createContainer hooks make them.

What the real one has besides and this one does not: /dev/dri and the files of Vulkan, EGL, OpenCL
and X11 (minirun's inventory has none of them), the hooks enable-cuda-compat and
update-application-profile.

The simulated driver has no nodes to look at, so major and minor are written out; and no kernel
module shows its GPUs in /proc, so its whole /proc/driver is one mount more, with all GPUs in it,
as a container in cdi mode sees them with the real driver.
"""

import os
import stat

from minirun.gpu.catalog import LINKS
from minirun.gpu.cdi.registry import SIMULATED
from minirun.gpu.inventory import Gpu, Inventory, Mig
from minirun.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KIND = "nvidia.com/gpu"
_FILE = ["ro", "nosuid", "nodev", "rbind", "rprivate"]
_SOCKET = ["nosuid", "nodev", "rbind", "rprivate", "noexec"]
_NOT_IN_CDI = ("nv-fabricmanager",)
_WHY = "no driver is behind these devices"


class Program(Record):
    """The program of the hooks: its path, argv up to the name of a hook, environment."""

    path: str
    argv: "tuple[str, ...]"
    env: "tuple[str, ...]" = ()


def spec(inventory: Inventory, program: Program, kind: str = KIND) -> "dict[str, Any]":
    """Return the spec of what the host has: names by index, by UUID, and `all`."""
    by_index = {name: edits for name, _, edits in _devices(inventory)}
    by_uuid = {uuid: edits for _, uuid, edits in _devices(inventory)}
    every = [node for edits in by_index.values() for node in edits["deviceNodes"]]
    named = by_index | by_uuid | ({"all": {"deviceNodes": every}} if every else {})
    marked = {"annotations": {SIMULATED: f"SIMULATED: {_WHY}"}} if inventory.simulated else {}
    return {
        "cdiVersion": "0.6.0" if marked else "0.5.0",  # the least that knows all that is in it
        "kind": kind,
        **marked,
        "devices": [{"name": name, "containerEdits": edits} for name, edits in named.items()],
        "containerEdits": common(inventory, program),
    }


def _devices(inventory: Inventory) -> "list[tuple[str, str, dict[str, Any]]]":
    """Return (index, UUID, containerEdits) of each GPU, or of the MIG devices of one."""
    found = []
    for gpu in inventory.gpus:
        if not gpu.migs:
            found.append((str(gpu.number), gpu.uuid, {"deviceNodes": [_gpu(inventory, gpu)]}))
        for at, mig in enumerate(gpu.migs):
            nodes = [_gpu(inventory, gpu), *_mig(inventory, mig)]
            found.append((f"{gpu.number}:{at}", mig.uuid, {"deviceNodes": nodes}))
    return found


def _gpu(inventory: Inventory, gpu: Gpu) -> "dict[str, Any]":
    return _node(inventory, gpu.node, inventory.major, gpu.minor, 0o666)


def _mig(inventory: Inventory, mig: Mig) -> "list[dict[str, Any]]":
    return [
        _node(inventory, f"/dev/nvidia-caps/nvidia-cap{minor}", inventory.caps_major, minor, 0o444)
        for minor in (mig.gi_minor, mig.ci_minor)
    ]


def _node(
    inventory: Inventory, path: str, major: int, minor: int, simulated_mode: int
) -> "dict[str, Any]":
    """A device node. The real tool writes no type, and a 0 never: the node is looked at later."""
    if inventory.simulated:
        numbers = {"type": "c", "major": major, "minor": minor, "fileMode": simulated_mode}
        return {"path": path, **numbers, "permissions": "rwm"}
    node: "dict[str, Any]" = {"path": path}
    if inventory.root:
        node["hostPath"] = inventory.root + path
    node |= {key: number for key, number in (("major", major), ("minor", minor)) if number}
    try:
        node["fileMode"] = stat.S_IMODE(os.stat(inventory.root + path).st_mode)
    except FileNotFoundError:
        pass  # whoever injects it will say so
    return {**node, "permissions": "rwm"}


def common(inventory: Inventory, program: Program) -> "dict[str, Any]":
    """Return the edits that come along with every device of the host."""
    nodes = [
        _node(inventory, node.path, node.major, node.minor, 0o666)
        for node in sorted(inventory.nodes, key=lambda node: node.path)
    ]
    folders = _folders(inventory)
    cuda = [f for f in inventory.libraries if f.path.rpartition("/")[2].startswith("libcuda.so.")]
    env = [f"NVIDIA_CTK_LIBCUDA_DIR={_folder(file.path)}" for file in cuda[:1]]
    arguments = [["create-symlinks", *_options("--link", links(inventory))]]
    if folders:
        arguments.append(["update-ldcache", *_options("--folder", folders)])
    arguments.append(["disable-device-node-modification"])
    return {
        "env": [*env, "NVIDIA_VISIBLE_DEVICES=void"],
        "deviceNodes": nodes,
        "hooks": [_hook(program, words) for words in arguments if words != ["create-symlinks"]],
        "mounts": _mounts(inventory),
    }


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _options(name: str, values: "list[str]") -> "list[str]":
    return [word for value in values for word in (name, value)]


def _hook(program: Program, words: "list[str]") -> "dict[str, Any]":
    hook: "dict[str, Any]" = {"hookName": "createContainer", "path": program.path}
    hook["args"] = [*program.argv, *words]
    return hook | ({"env": list(program.env)} if program.env else {})


def _mounts(inventory: Inventory) -> "list[dict[str, Any]]":
    """Return all files, at the host's own paths, by depth and then by name."""
    files = [*inventory.binaries, *inventory.libraries, *inventory.firmware]
    rows = [(file.path, _FILE) for file in files if not file.path.endswith(_NOT_IN_CDI)]
    rows += [(file.path, _SOCKET) for file in inventory.sockets]
    if inventory.simulated:
        rows.append(("/proc/driver", [*_FILE, "noexec"]))
    rows.sort(key=lambda row: (row[0].count("/"), row[0]))
    return [
        {"hostPath": inventory.root + path, "containerPath": path, "options": list(options)}
        for path, options in rows
    ]


def links(inventory: Inventory) -> "list[str]":
    """Return the links beside the libraries, as `target::link`, library by library.

    Those that programs wrongly rely on (minirun.gpu.catalog.LINKS) come first; then libNAME.so.N,
    which is the SONAME, and libNAME.so, where the host has them. The real tool reads the SONAME
    from the ELF file; here it is the host's link.
    """
    found = []
    names = {folder: _links_in(inventory.root + folder) for folder in _folders(inventory)}
    for path in sorted(file.path for file in inventory.libraries):
        folder, _, library = path.rpartition("/")
        found += [f"{to}::{folder}/{link}" for to, link in _links_of(library, names[folder])]
    return found


def _folders(inventory: Inventory) -> "list[str]":
    return sorted({_folder(file.path) for file in inventory.libraries})


def _links_in(folder: str) -> "dict[str, str]":
    """Return name → name of the file that it leads to, for each link of a folder."""
    found = {}
    for name in os.listdir(folder):
        if os.path.islink(f"{folder}/{name}"):
            found[name] = os.path.realpath(f"{folder}/{name}").rpartition("/")[2]
    return found


def _links_of(library: str, names: "dict[str, str]") -> "list[tuple[str, str]]":
    """Return (target, link) of each link that a library has."""
    plain = library.partition(".so.")[0] + ".so"
    found = [(to or library, link) for name, link, to in LINKS if name == plain]
    sonames = [
        name
        for name, target in names.items()
        if target == library and name.startswith(f"{plain}.") and name[len(plain) + 1 :].isdigit()
    ]
    found += [(library, soname) for soname in sonames]
    if sonames and names.get(plain) == library:
        found.append((sonames[0], plain))
    return list(dict.fromkeys(found))
