"""Figure 2: `run` flags and an image become a config.json, and Choices where it has no say.

The defaults are docker's: fourteen capabilities, masked and read-only paths below /proc and /sys,
a private /dev, a device list that ends with what every program needs; and a profile of the system
calls (minirun.oci.seccomp.file), which depends on the capabilities.
"""

from __future__ import annotations

import os

from minirun.cgroups.rules import DEFAULT
from minirun.core.config import DEFAULT_PATH, GPU_HOOK_ROW
from minirun.core.errors import UsageError
from minirun.core.keeping import jsonlite, places, state
from minirun.core.keeping.choices import Choices
from minirun.core.keeping.record import Record
from minirun.core.process.caps import NUMBERS
from minirun.oci.seccomp import file as seccomp_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.common.docker_record import Declared, MountRecord
    from minirun.common.network_request import NetworkRequest
    from minirun.gpu.asked.ways.records import CdiEdits
    from minirun.running.volumes import Volume

CAPABILITIES = (
    "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW",
    "CAP_SETGID", "CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE",
    "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
)  # fmt: skip
CPUS = "/sys/devices/system/cpu"
INIT = "/sbin/docker-init"
"""Where --init puts the small program that is pid 1 then, as docker does."""
PIDS_LIMIT = 2048
"""podman's default, against fork bombs; docker has none."""
NETWORK_FILES = ("hosts", "hostname", "resolv.conf")
"""What minirun.net.names makes in the container's directory, and what lies in its /etc then."""
NETWORK_PARAMETERS = {
    "ping_group_range": "0 2147483647", "ip_unprivileged_port_start": "0",
}  # fmt: skip
"""Below net.ipv4: what docker sets in a network namespace of the container's own."""
SPREADING = frozenset(("shared", "rshared", "slave", "rslave", "private", "rprivate"))
"""Kinds of propagation that a bind mount may have: mount_namespaces(7), "Shared subtrees"."""
SHM = "/dev/shm"
IPC_MOUNTS = (SHM, "/dev/mqueue")
"""What belongs to an IPC namespace; with the host's, these are the host's too."""


class RunOptions(Record):
    """What the flags of `minirun run` ask for. Sizes are bytes, `cpus` is a number of CPUs."""

    args: tuple[str, ...]
    env: tuple[str, ...] = ()
    cwd: str = "/"
    user: tuple[int, int, tuple[int, ...]] = (0, 0, ())
    terminal: bool = False
    hostname: str = ""
    properties: tuple[tuple[str, Any], ...] = ()
    """Properties of config.json that flags are for: path and value, as `put` takes them."""
    pids_limit: int = 0
    """The default; 0: none."""
    readonly: bool = False
    cap_add: tuple[str, ...] = ()
    cap_drop: tuple[str, ...] = ()
    mounts: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """Source, destination and options of each; the source "" is a new tmpfs."""
    privileged: bool = False
    """All capabilities and devices, and nothing hidden or read-only: docker's --privileged."""
    mount_records: tuple[MountRecord, ...] = ()
    """What the container's record says of them."""
    volumes: tuple[Volume, ...] = ()
    """Volumes that are made before stage 1, if there are none of their names."""
    folders: tuple[str, ...] = ()
    """Folders of the host that are made before stage 1, if they are missing: -v's sources."""
    root_propagation: str = ""
    """linux.rootfsPropagation: what a mount that spreads to or from the host needs."""
    seccomp: str = seccomp_file.NAME
    """The profile of system calls: minirun's own, a file's path, or "" for none."""
    no_new_privileges: bool = False
    apparmor: str = ""
    unmasked: bool = False
    """No path is hidden or made read-only, as docker's systempaths=unconfined."""
    host_network: bool = False
    network: NetworkRequest | None = None
    """What it is to have of networks; None: a namespace with lo alone, or the host's."""
    network_path: str = ""
    """Another container's network namespace, as a path."""
    domainname: str = ""
    ipc: str = "private"
    """private; host: its namespace and /dev/shm, which MPS needs; none: without /dev/shm."""
    ipc_path: str = ""
    """Another container's IPC namespace, as a path."""
    shm: str = ""
    """What is bound at /dev/shm, a path: minirun.running.shared_memory; "": a tmpfs of its own."""
    joined: dict[str, str] = {}
    """Kind of namespace → id of the container whose it is."""
    cgroup_parent: str = ""
    uid_maps: tuple[tuple[int, int, int], ...] = ()
    gid_maps: tuple[tuple[int, int, int], ...] = ()
    gpu_env: tuple[str, ...] = ()
    """NVIDIA_VISIBLE_DEVICES and NVIDIA_DRIVER_CAPABILITIES; empty without --gpus."""
    gpu_hook: dict[str, Any] | None = None
    """NVIDIA's hook as a program that is executed; None if its work is done in-line."""
    cdi: CdiEdits | None = None
    """CDI devices; in cdi mode the GPUs are among them."""
    choices: Choices = Choices()
    """What does not become part of config.json: see minirun.core.keeping.choices."""
    annotations: tuple[tuple[str, str], ...] = ()
    labels: dict[str, str] = {}
    """Of the container's record; the image's are among them."""
    declared: Declared = {}
    """What the image declares that no stage needs: minirun.image.store.DECLARED."""
    warnings: tuple[str, ...] = ()
    """What the user was told before there was a container, and a log."""


def example() -> dict[str, Any]:
    """Return runc's example of a config.json: what `run IMAGE` begins with, and `spec` writes."""
    text = state.read_text(f"{os.path.dirname(__file__)}/default_config.json")
    return {"ociVersion": state.OCI_VERSION, **jsonlite.loads(text)}


def config(container_id: str, run: RunOptions) -> dict[str, Any]:
    """Return the config.json for a container. Raises UsageError."""
    hooks: dict[str, Any] = {}
    given = state.short(container_id)[:64]  # the kernel's limit
    hostname = run.hostname or (os.uname().nodename if run.host_network else given)
    env = [f"PATH={DEFAULT_PATH}", f"HOSTNAME={hostname}", *run.env]
    if run.terminal:
        env.insert(1, "TERM=xterm")
    if run.gpu_env:
        env += run.gpu_env
        hooks = {"hooks": {"prestart": [run.gpu_hook or GPU_HOOK_ROW]}}
    document = example()
    linux = document.pop("linux")
    document |= {
        "process": _process(run, env),
        "root": {"path": places.ROOTFS, "readonly": run.readonly},
        "hostname": hostname,
        **({"domainname": run.domainname} if run.domainname else {}),
        "mounts": _mounts(run, document["mounts"]),
        **hooks,
        "annotations": dict(run.annotations),
        "linux": _linux(run, linux),
    }
    for path, value in run.properties:
        document = put(document, path.split("."), value)
    if "uts" not in (row["type"] for row in document["linux"]["namespaces"]):
        document.pop("hostname")
    if run.cgroup_parent:
        document["linux"]["cgroupsPath"] = _below(run.cgroup_parent, container_id)
    if run.cdi:
        run.cdi.put_into(document, run.choices.layers)
    return document


def put(value: Any, names: list[str], new: Any) -> Any:
    """Return part of a config.json with `new` at the path `names`; None takes away what is there.

    A name such as type=pid is that of the members of a list that have this type. An object is
    merged into an object, and a list into a list, where NAME=… takes the place of another NAME=….
    """
    if not names:
        return _merged(value, new)
    name, *rest = names
    if isinstance(value, list):
        key, _, word = name.partition("=")
        rows = [put(row, rest, new) if row.get(key) == word else row for row in value]
        return [row for row in rows if row is not None]
    changed = {**(value or {}), name: put((value or {}).get(name), rest, new)}
    return {key: member for key, member in changed.items() if member is not None}


def _merged(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {key: _merged(old.get(key), member) for key, member in new.items()}
    if isinstance(old, list) and isinstance(new, list):
        set_now = {one.partition("=")[0] for one in new if isinstance(one, str)}
        kept = [o for o in old if not isinstance(o, str) or o.partition("=")[0] not in set_now]
        return [*kept, *new]
    return new


def _below(parent: str, container_id: str) -> str:
    """Return linux.cgroupsPath of a cgroup in a parent; a slice is systemd's."""
    if parent.endswith(".slice"):
        return f"{parent}:minirun:{container_id}"
    return f"/{parent.strip('/')}/{container_id}"


def _process(run: RunOptions, env: list[str]) -> dict[str, Any]:
    """Return config.json's `process`."""
    uid, gid, groups = run.user
    caps = _held(run)
    held = {"bounding": caps, "effective": caps, "permitted": caps}
    return {
        "terminal": run.terminal,
        "user": {"uid": uid, "gid": gid, "additionalGids": [*dict.fromkeys((gid, *groups))]},
        "args": list(run.args),
        "env": env,
        "cwd": run.cwd,
        "capabilities": held,
        "noNewPrivileges": run.no_new_privileges,
        **({"apparmorProfile": run.apparmor} if run.apparmor else {}),
    }


def _held(run: RunOptions) -> list[str]:
    """Return its capabilities; --privileged has all, whatever --cap-drop says, as with docker."""
    return list(NUMBERS) if run.privileged else capabilities(run.cap_add, run.cap_drop)


def capabilities(add: tuple[str, ...], drop: tuple[str, ...]) -> list[str]:
    """Return docker's default capabilities, changed by --cap-add and --cap-drop.

    Raises UsageError for a name that is no capability.
    """

    def named(text: str) -> list[str]:
        name = text.upper()
        if name == "ALL":
            return list(NUMBERS)
        name = name if name.startswith("CAP_") else f"CAP_{name}"
        if name not in NUMBERS:
            raise UsageError(f"unknown capability {text!r}", "see capabilities(7)")
        return [name]

    dropped = {name for text in drop for name in named(text)}
    kept = [name for name in CAPABILITIES if name not in dropped]
    return kept + [n for text in add for n in named(text) if n not in kept]


def _mounts(run: RunOptions, mounts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return config.json's `mounts`: the usual ones, as flags change them, then those of -v."""
    if run.privileged:
        open_ones = ("/sys", "/sys/fs/cgroup")
        mounts = [_writable(row) if row["destination"] in open_ones else row for row in mounts]
    if run.ipc == "none":
        mounts = [row for row in mounts if row["destination"] != SHM]
    elif run.ipc == "host":
        mounts = [row for row in mounts if row["destination"] not in IPC_MOUNTS]
        for path in filter(os.path.isdir, IPC_MOUNTS):
            _bind(mounts, path, path, ("nosuid", "nodev", "noexec"))
    if run.shm:
        mounts = [_bound_shm(row, run.shm) if row["destination"] == SHM else row for row in mounts]
    if run.network:
        given = {destination for _, destination, _ in run.mounts}
        own: tuple[str, ...] = ("ro",) if run.readonly else ()
        for name in NETWORK_FILES:
            if f"/etc/{name}" not in given:
                _bind(mounts, f"{places.NETWORK_FILES}/{name}", f"/etc/{name}", own)
    elif run.host_network:
        for path in filter(os.path.exists, ("/etc/resolv.conf", "/etc/hosts")):
            _bind(mounts, path, path, ("ro",))
    for source, destination, options in sorted(run.mounts, key=lambda row: row[1].count("/")):
        if source:
            _bind(mounts, source, destination, options)
        else:
            row = {"destination": destination, "type": "tmpfs", "source": "tmpfs"}
            mounts.append({**row, "options": list(options)})
    return mounts


def _bound_shm(row: dict[str, Any], source: str) -> dict[str, Any]:
    """Return the row of /dev/shm as a bind mount; its size is that of what is bound."""
    return row | {"type": "bind", "source": source, "options": ["rbind", *row["options"]]}


def _writable(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"options": [option for option in row["options"] if option != "ro"]}


def _bind(
    mounts: list[dict[str, Any]], source: str, destination: str, options: tuple[str, ...]
) -> None:
    """Add a bind mount: rbind and rprivate, unless the options say otherwise."""
    row = {"destination": destination, "type": "bind", "source": source}
    usual: tuple[str, ...] = () if "bind" in options else ("rbind",)
    usual += () if SPREADING & set(options) else ("rprivate",)
    mounts.append({**row, "options": [*usual, *options]})


def _linux(run: RunOptions, example: dict[str, Any]) -> dict[str, Any]:
    """Return config.json's `linux`: namespaces, limits, hidden paths, seccomp."""
    shared = {"network"} if run.host_network else set()
    shared |= {"ipc"} if run.ipc == "host" else set()
    linux: dict[str, Any] = {
        "namespaces": [row for row in example["namespaces"] if row["type"] not in shared],
        "resources": _resources(run),
        "maskedPaths": [] if run.unmasked else [*example["maskedPaths"], *revealing()],
        "readonlyPaths": [] if run.unmasked else example["readonlyPaths"],
    }
    if run.seccomp:
        linux["seccomp"] = seccomp_file.load(run.seccomp, _held(run))
    if run.network and not run.host_network:
        linux["sysctl"] = _network_parameters(mapped=bool(run.uid_maps))
    if run.root_propagation:
        linux["rootfsPropagation"] = run.root_propagation
    paths = {"network": run.network_path, "ipc": run.ipc_path}
    for row in linux["namespaces"]:
        if path := paths.get(row["type"]):
            row["path"] = path
    if run.uid_maps:
        linux["namespaces"].append({"type": "user"})
        maps = {"uidMappings": run.uid_maps, "gidMappings": run.gid_maps or run.uid_maps}
        keys = ("containerID", "hostID", "size")
        for name, rows in maps.items():
            linux[name] = [dict(zip(keys, row, strict=True)) for row in rows]
    return linux


def _network_parameters(*, mapped: bool) -> dict[str, str]:
    """Return the parameters of a network namespace of its own that docker sets without a flag.

    A server of any user may have port 80, and any group may send pings; the latter takes groups
    that a user namespace does not have (`mapped`). Only what this kernel knows: ip-sysctl, icmp(7).
    """
    names = ["ip_unprivileged_port_start"] if mapped else [*NETWORK_PARAMETERS]
    return {
        f"net.ipv4.{name}": NETWORK_PARAMETERS[name]
        for name in names
        if os.path.exists(f"/proc/sys/net/ipv4/{name}")
    }


def revealing(cpus: str = CPUS) -> list[str]:
    """Return what else a container does not see of /proc and /sys.

    The counters of interrupts, and of how often each CPU was too hot, tell what other containers
    do (docker's advisory GHSA-6fw5-f8r9-fgfm). `cpus` is sysfs' folder of CPUs; those of a virtual
    machine mostly have no such counters.
    """
    hot = []
    if os.path.isdir(f"{cpus}/cpu0/thermal_throttle"):
        hot = [f"{cpus}/{name}/thermal_throttle" for name in sorted(os.listdir(cpus))]
        hot = [path for path in hot if os.path.isdir(path)]
    return ["/proc/interrupts", *hot]


def _resources(run: RunOptions) -> dict[str, Any]:
    """Return linux.resources: device rules, and the limit of processes."""
    if run.privileged:
        resources: dict[str, Any] = {"devices": [{"allow": True, "access": "rwm"}]}
    else:
        resources = {"devices": [{"allow": False, "access": "rwm"}]}
    rows = [(r.kind, r.major, r.minor, r.access) for r in DEFAULT]
    for kind, major, minor, access in () if run.privileged else rows:
        rule = {"allow": True, "type": kind, "major": major, "minor": minor, "access": access}
        resources["devices"].append({k: v for k, v in rule.items() if v is not None})
    if run.pids_limit:
        resources["pids"] = {"limit": run.pids_limit}
    return resources
