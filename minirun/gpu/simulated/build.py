"""Making the simulated driver's files: in a temporary folder, then renamed into place.

rename(2) of a finished folder is the one moment at which it appears, so two runs that start at
once cannot see half of it: the one that comes second finds the name taken and drops its own. A run
that is killed leaves a temporary folder with its pid in the name; the next one removes it.
"""

from __future__ import annotations

import os
import stat

from minirun.core.keeping import jsonlite
from minirun.core.keeping.numbers import whole
from minirun.core.kernel.architecture import NARROW, NATIVE
from minirun.core.rootfs.tree import remove_tree
from minirun.gpu.inventory import Gpu, Mig
from minirun.gpu.nvidia.shared import catalog
from minirun.gpu.simulated import elf, files
from minirun.gpu.simulated.spec import MODELS, SimulatedSpec, cuda_version, load

_HERE = os.path.dirname(__file__)
_BUSES = ("07", "0f", "47", "4e", "87", "90", "b7", "bd")
_TEMPORARY = ".making-"
UVM_MAJOR, CAPS_MAJOR, IMEX_MAJOR = 510, 508, 507
MIG_INSTANCES = (7, 8, 9)


def make(root: str, text: str, path: str) -> None:
    """Make the driver's files at `root`, unless another process is quicker.

    `text` is the specification, of the file `path` (see spec.load). Raises UsageError, OSError.
    """
    spec = load(text, path)
    parent = os.path.dirname(root)
    os.makedirs(parent, 0o700, exist_ok=True)
    clean(parent)
    temporary = f"{parent}/{_TEMPORARY}{os.getpid()}-{os.path.basename(root)}"
    mask = os.umask(0o022)
    try:
        _fill(temporary, spec)
        os.rename(temporary, root)
    except OSError:  # ENOTEMPTY or EEXIST: another process was quicker
        if not os.path.exists(f"{root}/inventory.json"):
            raise
    finally:
        os.umask(mask)
        remove_tree(temporary)


def clean(drivers: str) -> None:
    """Remove what killed runs left half-made in the store's folder `drivers`."""
    for name in os.listdir(drivers):
        pid = name.removeprefix(_TEMPORARY).partition("-")[0]
        is_draft = name.startswith(_TEMPORARY) and whole(pid) is not None
        if is_draft and not os.path.exists(f"/proc/{pid}"):
            remove_tree(f"{drivers}/{name}")


def gpus(spec: SimulatedSpec) -> tuple[Gpu, ...]:
    """Return the simulated GPUs: the bus ids and UUIDs of the measured host, and on from there."""
    model, brand, arch = MODELS[spec.model]
    made = []
    migs_made = 0
    for number in range(spec.gpus):
        domain, slot = divmod(number, len(_BUSES))
        migs: list[Mig] = []
        for gi in MIG_INSTANCES if number in spec.mig else ():
            uuid = f"MIG-bbbbbbbb-0000-4000-8000-{migs_made:012x}"
            minors = catalog.mig_minor(number, gi), catalog.mig_minor(number, gi, 0)
            migs.append(Mig(uuid, gi, 0, *minors, len(migs)))
            migs_made += 1
        made.append(
            Gpu(
                number=number,
                minor=number,
                uuid=f"GPU-aaaaaaaa-0000-4000-8000-{number:012x}",
                bus_id=f"{domain:08x}:{_BUSES[slot]}:00.0",
                model=f"{model} (SIMULATED)",
                brand=brand,
                arch=arch,
                migs=tuple(migs),
                mig_enabled=number in spec.mig,
            )
        )
    return tuple(made)


def _fill(root: str, spec: SimulatedSpec) -> None:
    folder = f"/usr/lib/{NATIVE.triplet}"
    folder32 = f"/usr/lib/{NARROW.triplet}" if NARROW else ""
    all_gpus = gpus(spec)
    for made_for in filter(None, (NATIVE, NARROW)):
        for name, soname in files.libraries(spec.driver, made_for is NATIVE).items():
            data = elf.shared_object(soname, made_for.machine, ("libc.so.6",), files.REMARK)
            _write(root, f"/usr/lib/{made_for.triplet}/{name}", data)
    for path, target in files.links(spec.driver, folder, folder32).items():
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        os.symlink(target, root + path)
    texts = files.data_files(spec.driver, folder)
    texts |= files.proc_files(spec.driver, NATIVE.machine, all_gpus)
    for path, text in texts.items():
        _write(root, path, text.encode())
    for name in ("nvidia-smi", *files.BINARIES):
        script = "nvidia-smi.sh" if name == "nvidia-smi" else "stand-in.sh"
        with open(f"{_HERE}/{script}", "rb") as source:
            data = source.read().replace(b"@CUDA@", cuda_version(spec.driver).encode())
        _write(root, f"/usr/bin/{name}", data, 0o755)
    for path, _ in catalog.SOCKETS:
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        os.mknod(root + path, stat.S_IFSOCK | 0o666)
        os.chmod(root + path, 0o666)
    if spec.mps:
        os.makedirs(root + catalog.MPS_PIPES)
    _write(root, "/inventory.json", _inventory(spec, all_gpus, folder, folder32).encode())


def _write(root: str, path: str, data: bytes, mode: int = 0o644) -> None:
    os.makedirs(os.path.dirname(root + path), exist_ok=True)
    with open(root + path, "wb") as file:
        file.write(data)
        os.fchmod(file.fileno(), mode)


def _inventory(spec: SimulatedSpec, all_gpus: tuple[Gpu, ...], folder: str, folder32: str) -> str:
    """Return inventory.json: a minirun.gpu.inventory.Inventory, except its root."""
    wide = files.libraries(spec.driver, True)
    narrow = files.libraries(spec.driver, False) if folder32 else {}
    majors = {"nvidia": catalog.NVIDIA, "nvidia-uvm": UVM_MAJOR}
    firmware = catalog.firmware_folder(spec.driver)
    mps = [(catalog.MPS_PIPES, catalog.MPS_NEEDS)] if spec.mps else []
    values = {
        "driver": spec.driver,
        "cuda": cuda_version(spec.driver),
        "gpus": all_gpus,
        "libraries": _libraries(folder, spec.driver, wide),
        "libraries32": _libraries(folder32, spec.driver, narrow),
        "binaries": [(f"/usr/bin/{name}", needs) for name, needs in catalog.BINARIES],
        "firmware": [(f"{firmware}/gsp_{chip}.bin", "") for chip in ("ga10x", "tu10x")],
        "sockets": [*catalog.SOCKETS, *mps],
        "nodes": [(path, majors[name], minor, n) for path, name, minor, n in catalog.NODES],
        "major": catalog.NVIDIA,
        "caps_major": CAPS_MAJOR,
        "simulated": True,
        "imex_major": IMEX_MAJOR,
    }
    return jsonlite.dumps(values, indent=1)


def _libraries(folder: str, driver: str, there: dict[str, str]) -> list[tuple[str, str]]:
    return [
        (f"{folder}/{name}.{driver}", needs)
        for name, needs in catalog.LIBRARIES
        if f"{name}.{driver}" in there
    ]
