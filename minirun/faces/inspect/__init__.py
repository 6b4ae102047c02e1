"""What a container is made of, now: read from /proc and the cgroup's files, not from config.json.

config.json says what was asked for; it is shown if the kernel cannot say it (after the container's
end), and if the two differ.

    document    all of it, key by key, for --json; page: as text
    sizes       how many bytes it has
    use         what containers use, for `stats`
    processes   init: namespaces, user, capabilities, seccomp
    mounts      the kernel's list of mounts
    limits      the cgroup: limits, use, device rules
    given       the GPUs and devices that the container was given
    wanted      what config.json asks for, and where the kernel says otherwise
    past        what the log knows: stages, hooks
    snapshot    all of that at one moment, for --snapshots and --step
    gpu         gpu why, gpu diff
    network     network inspect --picture, network why
"""

from typing import Any

from minirun.cgroups import cgroup_of, stats
from minirun.cgroups.rules import DeviceRule
from minirun.common import docker_record
from minirun.core.container import Container
from minirun.core.errors import StateError
from minirun.core.keeping import state
from minirun.core.lazy import lazy
from minirun.faces.inspect import limits, mounts, past, processes
from minirun.faces.inspect import wanted as asked
from minirun.faces.inspect.document import Anatomy, NetworkRow
from minirun.faces.inspect.given import device_names, saved_edits
from minirun.image import workshop
from minirun.image.store import LayerOrigin

with lazy:
    from minirun.faces.inspect.network import facts
    from minirun.net import interfaces, leases, ports  # pyroute2 takes 130 ms to import


def anatomy(container: Container) -> Anatomy:
    """Return all that is known of a container. Raises StateError, OSError."""
    record = container.record
    found = past.read(container)
    docker = docker_record.of(record)
    document: Anatomy = {
        **state.public(record),  # type: ignore[typeddict-item]  # a plain dict of the core's
        "name": container.name,
        "live": bool(record.pid and state.is_alive(record.init)),
        "image": docker.image,
        "layers": [row._asdict() for row in _layers(container)],
        "declared": docker.declared or {},
        "args": record.args or container.config.process.get("args"),
        "exitStatus": record.exit_status,
        "cgroup": record.cgroup,
        "namespaces": {}, "user": None, "capabilities": {}, "seccomp": None,
        "noNewPrivileges": None, "mounts": [], "devices": [], "deviceRules": None,
        "interfaces": [], "networks": [], "limits": {}, "usage": None, "memberOf": {},
        "hooks": past.hooks(container, found),
        "gpus": saved_edits(record),
        "stages": past.stages(found),
        "wanted": asked.wanted(container),
        "differences": [],
    }  # fmt: skip
    if document["live"]:
        try:
            _ask_kernel(container, document)
        except (FileNotFoundError, ProcessLookupError):
            raise StateError(f"container {container.name!r} ended while it was looked at") from None
    return document


def _layers(container: Container) -> list[LayerOrigin]:
    image, layers = docker_record.of(container.record).image or "", container.config.layers
    found: list[LayerOrigin] = workshop.call("origins")(container.settings.store, image, layers)
    return found


def _ask_kernel(container: Container, document: Anatomy) -> None:
    """Fill in what the kernel says of a container that lives. Raises OSError."""
    pid = container.record.pid
    document["namespaces"] = processes.shared(pid, _others(container))
    rights = processes.rights(pid)
    document["user"], document["capabilities"] = rights["user"], rights["capabilities"]
    document["seccomp"] = rights["seccomp"]
    document["noNewPrivileges"] = rights["noNewPrivileges"]
    document["mounts"] = mounts.tree(container, pid)
    rules: list[DeviceRule] | None = None
    if cgroup_of(container).exists():
        cgroup = container.record.cgroup
        if not (cgroup and cgroup.get("rootless")):  # which has none
            rules = limits.rules(container)
        document["limits"] = limits.limits(container)
        document["usage"] = stats.usage(cgroup_of(container).record())
        document["deviceRules"] = None if rules is None else list(map(str, rules))
    document["devices"] = limits.nodes(container, pid, rules)
    if not container.unprivileged:  # a process without privileges cannot setns back out
        document["interfaces"] = _interfaces(pid)
        document["networks"] = _networks(container, document["interfaces"])
    document["memberOf"] = processes.cgroups(pid)
    document["differences"] = asked.differences(document, rules)


def _others(container: Container) -> dict[str, int]:
    """Return id → init's pid of the other containers that live below the same state root."""
    found = {}
    for name in state.names(container.settings.root):
        try:
            record = state.load(container.settings.root, name)
        except StateError:
            continue
        if name != container.id and record.pid:
            found[state.name_of(record.directory)] = record.pid
    return found


def _interfaces(pid: int) -> list[dict[str, Any]]:
    return [row._asdict() for row in interfaces.interfaces(pid)]


def _networks(container: Container, there: list[dict[str, Any]]) -> list[NetworkRow]:
    """Return the networks that a container is on; addresses and links are the kernel's."""
    on = docker_record.of(container.record).attachments
    store, own = container.settings.store, container.directory
    found = [one for each in on for one in leases.all_of(store, each.network)]
    mine = [one for one in found if one.container == own]
    links = facts.namespace().links if mine else ()
    result: list[NetworkRow] = []
    for lease in mine:
        outer = next((one for one in links if one.name == lease.link), None)
        bridges = [one.name for one in links if outer and one.number == outer.master]
        inner = [row for row in there if row["name"] == lease.interface]
        addresses = [at for row in inner for at in row["addresses"] if not at.startswith("fe80:")]
        result.append({
            "network": lease.network, "bridge": bridges[0] if bridges else None,
            "link": outer.name if outer else None,
            "interface": lease.interface if inner else None, "addresses": addresses,
            "ports": ports.shown(list(lease.ports)),
        })  # fmt: skip
    return result


__all__ = ["anatomy", "device_names"]
