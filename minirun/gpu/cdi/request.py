"""What `minirun run` was asked for in CDI's terms → the edits that go into config.json.

    --device nvidia.com/gpu=0        out of the specs in /etc/cdi and /var/run/cdi
    --annotation cdi.k8s.io/x=…      the same: Kubernetes' way
    --gpus 0,1 --gpu-mode cdi        the same names, nvidia.com/gpu=0 and =1; where no spec of that
                                     kind is there, one is made from the inventory in memory

The last is what nvidia-container-runtime does by default since 1.18 ("jit-cdi"): there, too, the
devices' edits come before the common ones.
"""

import os
import sys

from minirun.core.errors import GPUError
from minirun.core.record import Record
from minirun.gpu import inventory
from minirun.gpu.cdi import inject, registry, stale
from minirun.gpu.edits import Given
from minirun.gpu.nvidia.ctk import generate, recipe
from minirun.gpu.request import Request
from minirun.gpu.share import sharing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.gpu.inventory import Inventory
    from minirun.gpu.wish import Wish

HOOK = "nvidia-cdi-hook"


class Asked(Record):
    """What the command line says."""

    devices: "tuple[str, ...]" = ()
    """Full names: of --device, then of annotations."""
    wish: "Wish | None" = None
    """Of --gpus, in cdi mode."""
    driver: str = ""
    """nvidia, simulated, or empty: whatever there is."""
    folders: "tuple[str, ...]" = registry.FOLDERS
    user_namespace: bool = False
    place: "tuple[str, str]" = ("", "")
    """State root, and the id of the container to be: for whom a count chooses GPUs."""
    root: str = ""
    """The driver root; empty for where the driver is."""


class Injection(Record):
    """What is put into config.json, and what is to be known of it later."""

    edits: "dict[str, Any]"
    """One containerEdits; its device nodes are complete."""
    devices: "tuple[str, ...]"
    gpus: "tuple[Given, ...]"
    driver: str
    simulated: bool
    warnings: "tuple[str, ...]"

    def as_json(self) -> "dict[str, Any]":
        """What is written to the container's edits.json: see minirun.gpu.edits.Edits.as_json."""
        gpus = [
            {"index": gpu.name, "minor": gpu.minor, "uuid": gpu.uuid, "model": gpu.model}
            for gpu in self.gpus
        ]
        keys = ("env", "deviceNodes", "mounts", "hooks")
        return {
            "cdi": list(self.devices), "gpus": gpus, "driver": self.driver,
            "simulated": self.simulated, **{key: self.edits.get(key, []) for key in keys},
            "links": [], "ldconfig": "", "libraryFolders": [],
        }  # fmt: skip


def resolve(asked: Asked, store: str) -> Injection:
    """Return what `asked` means on this host. Raises GPUError, UsageError, OSError.

    `store` holds the simulated driver's files.
    """
    found = registry.load(asked.folders)
    warnings = found.warnings
    host = None
    wanted = list(asked.devices)
    if asked.wish:
        if not _has_spec(found, asked.driver):
            host = inventory.inventory(asked.driver or "auto", store, asked.root)
            warnings += _wrong(host, asked.wish.devices != ("none",))
            made = generate.spec(host, recipe.Recipe(program()))
            found.add(registry.Spec("", len(asked.folders), made))
        wanted = [*_names(asked.wish, found, asked.place), *wanted]
        if asked.wish.capabilities:
            warnings.append("--gpus capabilities=… counts in legacy mode only: cdi gives them all")
    wanted = list(dict.fromkeys(wanted))
    cards = _other_vendors(asked, wanted, found)
    parts = found.edits(wanted)
    if asked.wish and asked.wish.devices == ("none",):
        parts.append(_control_nodes(found))
    edits = inject.complete(inject.join(parts))
    used = [found.devices[name] for name in wanted]
    warnings += stale.warnings(used)
    simulated = any(spec.simulated for spec in used) or bool(host and host.simulated)
    _refuse(asked, edits, simulated)
    if host is None and any(spec.raw["kind"] == recipe.KIND for spec in used):
        host = _host(simulated, store)
        warnings += _wrong(host, bool(wanted)) if host else []
    return Injection(
        edits=edits,
        devices=tuple(wanted),
        gpus=(*(_given(host, edits.get("deviceNodes", [])) if host else ()), *cards),
        driver=host.driver if host else "",
        simulated=simulated,
        warnings=tuple(warnings),
    )


def _other_vendors(
    asked: Asked, wanted: "list[str]", found: registry.Registry
) -> "tuple[Given, ...]":
    """Describe the GPUs of other vendors that are asked for and that no file describes.

    Returns what the GPUs asked for are called, as far as the host tells. Raises GPUError.
    """
    given: "list[Given]" = []
    kinds = dict.fromkeys(name.partition("=")[0] for name in wanted)
    for kind in kinds:
        if kind.partition("/")[0] not in ("amd.com", "intel.com"):
            continue
        from minirun.gpu import vendors

        if not vendors.of_kind(kind) or found.of_kind(kind):
            continue
        cards = vendors.look(vendors.of_kind(kind), asked.root)
        found.add(registry.Spec("", len(asked.folders), vendors.spec(cards)))
        there = [name for name in wanted if name in found.devices]
        names = [name.partition("=")[2] for name in there if name.startswith(f"{kind}=")]
        given += vendors.plan(cards, Request(devices=tuple(names))).gpus
    return tuple(given)


def program() -> recipe.Program:
    """Return minirun's own nvidia-cdi-hook, for hooks: this program, as it runs now.

    Started as `python -m minirun` it has no path of its own; then it is the interpreter's.
    """
    path = os.path.abspath(sys.argv[0])
    if os.path.basename(path) == "minirun" and os.access(path, os.X_OK):
        return recipe.Program(path, (path, HOOK))
    python = sys.executable
    return recipe.Program(python, (python, "-I", "-m", "minirun", HOOK))


def _wrong(host: "Inventory", gpus: bool) -> "list[str]":
    """Return what is wrong with the host; `gpus`: any are wanted. Raises GPUError for the worst."""
    from minirun.gpu.nvidia.cli import warn

    needs = Request(("all",) if gpus else (), ("compute", "utility"))
    return [str(one) for one in warn.bearable(warn.check(host, needs))]


def _has_spec(found: registry.Registry, driver: str) -> bool:
    """Tell whether a file describes NVIDIA's GPUs, of the driver that was asked for."""
    specs = found.of_kind(recipe.KIND)
    return any(not driver or spec.simulated == (driver == "simulated") for spec in specs)


def _names(wish: "Wish", found: registry.Registry, place: "tuple[str, str]") -> "list[str]":
    """Return the devices that --gpus means. Raises GPUError where there are too few."""
    kind = recipe.KIND
    if not wish.amount:
        return [f"{kind}={device}" for device in wish.devices if device != "none"]
    there = [name.partition("=")[2] for name in found.devices if name.startswith(f"{kind}=")]
    indices = sorted(int(name) for name in there if name.isdigit())
    if wish.amount > len(indices):
        hint = f"the CDI specs have {len(indices)}"
        raise GPUError(f"--gpus count={wish.amount}: more than there are", hint)
    simulated = found.devices[f"{kind}={indices[0]}"].simulated
    driver = "simulated" if simulated else "nvidia"
    ask = sharing.Ask(tuple(map(str, indices)), wish.amount, wish.exclusive, driver)
    return [f"{kind}={index}" for index in sharing.pick(place[0], ask, place[1])]


def _control_nodes(found: registry.Registry) -> "dict[str, Any]":
    """`none`: what every container gets, but nothing except the control nodes of it."""
    edits = found.of_kind(recipe.KIND)[-1].raw.get("containerEdits", {})
    return {key: edits[key] for key in ("env", "deviceNodes") if key in edits}


def _refuse(asked: Asked, edits: "dict[str, Any]", simulated: bool) -> None:
    """Refuse what cannot be done. Raises GPUError."""
    if simulated and asked.driver == "nvidia":
        hint = "it is in a spec file that was made without a driver"
        raise GPUError("a CDI device is the simulated driver's", hint)
    if simulated and asked.user_namespace:
        hint = "no mknod there, and no node on the host to bind; legacy mode can"
        raise GPUError("no simulated gpu in a user namespace in cdi mode", hint)
    for key in ("netDevices", "intelRdt"):
        if edits.get(key):
            raise GPUError(f"a CDI device has {key}: minirun run cannot do that", "runc can")


def _host(simulated: bool, store: str) -> "Inventory | None":
    """Return the inventory that tells what the GPUs are called; None without a driver."""
    try:
        return inventory.inventory("simulated" if simulated else "nvidia", store)
    except GPUError:
        return None


def _given(host: "Inventory", nodes: "list[dict[str, Any]]") -> "tuple[Given, ...]":
    """Return the GPUs and MIG devices whose nodes these are."""
    numbers = {(node.get("major"), node.get("minor")) for node in nodes}
    given = []
    for gpu in host.gpus:
        if (host.major, gpu.minor) not in numbers:
            continue
        migs = [mig for mig in gpu.migs if (host.caps_major, mig.ci_minor) in numbers]
        for mig in migs:
            name = f"{gpu.number}:{gpu.migs.index(mig)}"
            given.append(Given(name, gpu.minor, mig.uuid, gpu.model))
        if not migs:
            given.append(Given(str(gpu.number), gpu.minor, gpu.uuid, gpu.model))
    return tuple(given)
