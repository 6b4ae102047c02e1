"""Who has which GPU, below every known state root, and however it came there.

Stage 5 writes down what it gives (minirun.gpu.share). A GPU that comes by an engine's CDI, by
`--device /dev/nvidia1`, or by a hook that is not minirun's has no such row. What it has is a node
in config.json's linux.devices, or a rule of the cgroup that names its number; these are asked of
each container that runs. A node counts if the rules in force let a process read or write it. A
rule for all devices (privileged) names no GPU.

The rules in force are version 1's devices.list, or version 2's program if it is one of minirun's.
Another program cannot be read: then config.json's own rules count.
"""

from __future__ import annotations

from functools import partial

from minirun.cgroups import cgroup_of
from minirun.cgroups.reading import access
from minirun.cgroups.rules import parse_rules
from minirun.core.container import Container
from minirun.core.errors import MinirunError
from minirun.core.keeping import jsonlite, places, state
from minirun.core.keeping.record import Record
from minirun.core.keeping.settings import Settings
from minirun.engines import roots
from minirun.gpu import driverroot, drivers, share
from minirun.gpu.edits import GivenGpu
from minirun.gpu.nvidia.cli import planner
from minirun.gpu.share import Holder, overlap
from minirun.gpu.vendors import discovery
from minirun.running import lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Numbers = tuple[int, int]

_NO_GPUS = (1, 5, 10, 136)
"""Majors of memory, terminals, miscellaneous devices and pseudo-terminals."""


class ContainerNode(Record):
    """A character device that a container was given; `path` is empty if only a rule names it."""

    path: str
    numbers: Numbers
    given: str
    """The access that config.json gives, or the rule that names it: out of "rwm"."""
    access: str
    """What the rules in force allow."""


class HostGpus(Record):
    """The GPUs of one driver."""

    driver: str
    of_nodes: Callable[[frozenset[Numbers]], tuple[GivenGpu, ...]]
    """Return those that device nodes, by major and minor, belong to."""


def nodes(container: Container) -> list[ContainerNode]:
    """Return the devices that config.json lists, and those that a rule in force names."""
    config = container.config
    asked = parse_rules(config.resources.get("devices") or [])
    try:
        rules = cgroup_of(container).effective_device_rules()
    except (MinirunError, OSError, KeyError, ValueError):
        rules = asked
    paths: dict[Numbers, str] = {}
    for rule in rules:
        if rule.allow and rule.kind == "c" and rule.major is not None and rule.minor is not None:
            paths[rule.major, rule.minor] = ""
    for row in config.linux.get("devices") or ():
        if row["type"] in ("c", "u"):
            paths[row["major"], row["minor"]] = row["path"]
    return [
        ContainerNode(
            path, key, access(asked if path else rules, "c", *key), access(rules, "c", *key)
        )
        for key, path in paths.items()
        if key[0] not in _NO_GPUS
    ]


def gpus(hosts: list[HostGpus], numbers: frozenset[Numbers]) -> list[tuple[str, GivenGpu]]:
    """Return (driver, GPU) of the hosts' GPUs that these nodes belong to."""
    return [(host.driver, gpu) for host in hosts for gpu in host.of_nodes(numbers)]


def hosts(store: str) -> list[HostGpus]:
    """Return driver and GPUs of what the host has; what does not work is left out."""
    found: list[HostGpus] = []
    driver = "nvidia" if driverroot.is_loaded("") else "simulated"
    try:
        own = drivers.inventory(driver, store)
        found.append(HostGpus(driver, partial(planner.gpus_of_nodes, own)))
    except (MinirunError, OSError):
        pass  # `gpu list` says why
    for vendor in discovery.present_vendors():
        cards = discovery.find_cards(vendor)
        found.append(HostGpus(vendor, partial(discovery.gpus_of_nodes, cards)))
    return found


def holders(settings: Settings, but: str = "") -> list[Holder]:
    """Return the rows of all containers that run, except the one whose directory is `but`.

    Raises GPUError, OSError.
    """
    found: list[Holder] = []
    machine = None
    for root in roots.known(settings):
        table = share.holders(root)
        found += [row for row in table if f"{root}/{row.container}" != but]
        for name in state.names(root):
            path = f"{root}/{name}"
            created, there = _unrecorded(settings._replace(root=root), name)
            if not there or path == but:
                continue
            machine = hosts(settings.store) if machine is None else machine
            known = [row for row in table if row.container == name]
            for driver, gpu in gpus(machine, there):
                if not any(row.driver == driver and overlap(gpu.name, row.gpu) for row in known):
                    row = Holder(gpu.name, driver, name, created)
                    called = state.name_of(path)
                    found.append(row._replace(uuid=gpu.uuid, model=gpu.model, called=called))
    return found


def _unrecorded(settings: Settings, name: str) -> tuple[str, frozenset[Numbers]]:
    """Return when a container that runs was made, and its nodes that edits.json does not have."""
    try:
        container = lookup.load(settings, name)
        if container.record.status != state.STOPPED:
            there = {node.numbers for node in nodes(container) if set(node.access) & set("rw")}
            return container.record.created, frozenset(there - recorded(container))
    except (MinirunError, OSError, LookupError, TypeError, ValueError):
        pass  # another runtime's, damaged, or gone by now
    return "", frozenset()


def recorded(container: Container) -> set[Numbers]:
    """Return the nodes that stage 5, or `run` with CDI, has written down. Raises ValueError."""
    try:
        saved = jsonlite.loads(state.read_text(f"{container.directory}/{places.EDITS}"))
    except OSError:
        return set()
    return {(row["major"], row["minor"]) for row in saved["deviceNodes"]}
