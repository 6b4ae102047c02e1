"""A container as docker's `inspect` describes it: what `inspect --format` reads.

It is made of the record (state.json), config.json, the leases of its networks and the log. Field
names and their order are docker's (Engine API, "Inspect a container"). What docker keeps of a
command line, and minirun does not, is read back from config.json: CapAdd is what goes beyond the
default capabilities, and Entrypoint is the image's if the command begins with it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from minirun.core.errors import ImageError, StateError
from minirun.core.keeping import places, state
from minirun.core.process.caps import NUMBERS
from minirun.image import split, store
from minirun.inspect import past
from minirun.inspect.sizes import sizes
from minirun.net import leases, network
from minirun.oci import run_config
from minirun.running import health, renamed
from minirun.show.text.template import Fields

if TYPE_CHECKING:
    from minirun.core.container import Container
    from minirun.core.keeping.container_record import ContainerRecord
    from minirun.image.store import Image
    from minirun.net.leases import Lease

NEVER = "0001-01-01T00:00:00Z"
"""Go's zero time: what docker says if a thing has not happened."""
_STATUS = {state.CREATING: "created", state.STOPPED: "exited"}
"""Status of ours → docker's, if it has another word."""
_SHM = 64 << 20
_CPUS_PERIOD = 100_000


def status_of(record: ContainerRecord) -> str:
    """Return docker's word for a container's status: exited for stopped, or restarting."""
    if record.status == state.STOPPED and record.restart and state.is_alive(record.supervisor):
        return "restarting"
    return _STATUS.get(record.status, record.status)


def document(container: Container, *, size: bool = False) -> Fields:
    """Return the document; with `size` SizeRw and SizeRootFs too, for which all files are counted.

    Raises OSError.
    """
    record = container.record
    image = _image(container)
    own = [lease for row in _network_rows(container) for lease in _leases(container, row)]
    args = list(record.args or container.config.process.get("args") or [])
    if args[:2] == [run_config.INIT, "--"]:
        del args[:2]
    written = dict(zip(("SizeRw", "SizeRootFs"), sizes(record), strict=True)) if size else {}
    directory, files = record.directory, f"{record.directory}/{places.NETWORK_FILES}"
    has_files = bool(record.network)
    return Fields(
        Id=record.id, Created=record.created, Path=args[0] if args else "", Args=args[1:],
        State=_state(container), Image=_image_id(container) if image else "",
        ResolvConfPath=f"{files}/resolv.conf" if has_files else "",
        HostnamePath=f"{files}/hostname" if has_files else "",
        HostsPath=f"{files}/hosts" if has_files else "",
        LogPath=f"{directory}/{places.OUTPUT}" if record.output else "",
        Name=f"/{renamed.name_of(directory)}", RestartCount=record.restarts, Driver="overlay2",
        Platform="linux",
        MountLabel="", ProcessLabel=container.config.process.get("selinuxLabel", ""),
        AppArmorProfile=container.config.process.get("apparmorProfile", ""), ExecIDs=None,
        HostConfig=_host_config(container),
        GraphDriver=_graph_driver(container), **written,
        Mounts=mounts(container), Config=_config(container, image, args),
        NetworkSettings=_network_settings(container, own),
    )  # fmt: skip


def _image(container: Container) -> Image | None:
    """Return the image in the store; None if it is gone, or damaged."""
    try:
        return store.find(container.settings.store, split(container.record.image or ""))
    except (ImageError, OSError):
        return None


def _image_id(container: Container) -> str:
    """Return the id that `image inspect` shows: the digest of the image's configuration."""
    name = container.record.image
    for row in store.list_images(container.settings.store):
        if name == f"{row['name']}:{row['tag']}" and "broken" not in row:
            return row.get("id") or row["digest"]
    return ""


def _state(container: Container) -> Fields:
    record = container.record
    status = status_of(record)
    checks, started = health.read(record.directory), NEVER
    if record.pid or record.exit_status is not None or record.status == state.STOPPED:
        started = _started(container)
    return Fields(
        Status=status, Running=status in ("running", "paused"), Paused=status == "paused",
        Restarting=status == "restarting", OOMKilled=_oom_killed(container), Dead=False,
        Pid=record.pid,
        ExitCode=record.exit_status or 0, Error="", StartedAt=started,
        FinishedAt=record.finished or NEVER, **({"Health": Fields(checks)} if checks else {}),
    )  # fmt: skip


def _started(container: Container) -> str:
    """Return when the command began: by the log, which has its execve; else when it was made."""
    if container.record.status in (state.CREATED, state.CREATING):
        return NEVER
    try:
        begun = past.started(f"{container.directory}/{places.EVENTS}")
    except OSError:
        begun = None
    return state.timestamp(begun[0]) if begun else container.record.created


def _oom_killed(container: Container) -> bool:
    """Return True if the kernel has killed for memory in its cgroup, which goes with its end."""
    cgroup = container.record.cgroup
    if not cgroup or not cgroup["version"]:
        return False
    name, file = (
        ("memory", "memory.oom_control") if cgroup["version"] == 1 else ("", "memory.events")
    )
    try:
        text = state.read_text(f"{cgroup['dirs'][name]}/{file}")
    except (OSError, LookupError):
        return False
    return any(row.startswith("oom_kill ") and row != "oom_kill 0" for row in text.splitlines())


def _graph_driver(container: Container) -> Fields:
    if not container.config.layers:
        return Fields(Data=None, Name="none")
    directory = container.directory
    return Fields(
        Data={
            "LowerDir": ":".join(reversed(container.config.layers)),
            "MergedDir": f"{directory}/{places.ROOTFS}", "UpperDir": f"{directory}/{places.UPPER}",
            "WorkDir": f"{directory}/{places.WORK}",
        },
        Name="overlay2",
    )  # fmt: skip


def _defaults() -> set[str]:
    """Return where every container has mounts without being asked."""
    return {row["destination"] for row in run_config.example()["mounts"]}


def _own_files() -> set[str]:
    return {f"{places.NETWORK_FILES}/{name}" for name in run_config.NETWORK_FILES}


def mounts(container: Container) -> list[Fields]:
    """Return what is mounted besides what every container has: bind mounts, volumes, tmpfs."""
    found = []
    for row in container.config.raw.get("mounts") or []:
        options, source = row.get("options") or [], row.get("source", "")
        is_bind = row.get("type") == "bind" or bool({"bind", "rbind"} & set(options))
        is_tmpfs = row.get("type") == "tmpfs" and row["destination"] not in _defaults()
        is_flags = row["destination"] in (*run_config.IPC_MOUNTS, run_config.INIT)
        if (is_bind and source not in _own_files() and not is_flags) or is_tmpfs:
            found.append(_mount(container, row["destination"], source, options, is_bind=is_bind))
    return found


def _mount(
    container: Container, destination: str, source: str, options: list[str], *, is_bind: bool
) -> Fields:
    known = [row for row in container.record.mounts or () if row["target"] == destination]
    kind = known[0]["type"] if known else "bind" if is_bind else "tmpfs"
    named = {}
    if kind == "volume":  # without a name: in the container's directory, as the image declares it
        name = known[0]["name"] or f"{container.id}-{source.rpartition('/')[2]}"
        named = {"Name": name, "Driver": "local"}
    if is_bind and not source.startswith("/"):
        source = f"{container.directory}/{source}"
    shown = [word for word in options if word not in ("bind", "rbind", "rprivate", "rro")]
    spread = [word for word in options if word.lstrip("r") in ("private", "shared", "slave")]
    return Fields(
        Type=kind, **{"Name": "", **named}, Source=source if is_bind else "",
        Destination=destination, Mode=",".join(shown), RW="ro" not in options,
        Propagation=(spread or ["rprivate"])[-1] if kind == "bind" else "",
    )  # fmt: skip


def _host_config(container: Container) -> Fields:
    record, config = container.record, container.config
    limits = record.resources or config.resources
    cpu, memory = limits.get("cpu") or {}, limits.get("memory") or {}
    held = ((config.process.get("capabilities") or {}).get("bounding")) or []
    rows = mounts(container)
    groups = (config.process.get("user") or {}).get("additionalGids") or []
    privileged = set(held) >= set(NUMBERS) and not config.linux.get("maskedPaths")
    quota, period = cpu.get("quota") or 0, cpu.get("period") or 0
    by_cpus = quota > 0 and period == _CPUS_PERIOD  # --cpus; docker's NanoCpus
    namespaces = config.namespaces
    return Fields(
        Binds=[_bound(row) for row in rows if row["Type"] in ("bind", "volume")],
        ContainerIDFile="", LogConfig=_log_config(record),
        NetworkMode=network_mode(container), PortBindings=_bindings(container),
        RestartPolicy=_restart_policy(container), AutoRemove=record.auto_remove,
        VolumeDriver="", VolumesFrom=None,
        CapAdd=_beyond(held, run_config.CAPABILITIES) or None,
        CapDrop=_beyond(run_config.CAPABILITIES, held) or None,
        CgroupnsMode="private" if "cgroup" in namespaces else "host",
        **_names_of(container),
        GroupAdd=[str(gid) for gid in groups] or None,
        IpcMode=_ipc_mode(container), Cgroup="", Links=None,
        OomScoreAdj=config.process.get("oomScoreAdj") or 0, PidMode=_shared(container, "pid"),
        Privileged=privileged, PublishAllPorts=False,
        ReadonlyRootfs=bool((config.raw.get("root") or {}).get("readonly")),
        SecurityOpt=_security(container) or None,
        Tmpfs={row["Destination"]: row["Mode"] for row in rows if row["Type"] == "tmpfs"},
        UTSMode=_shared(container, "uts"), UsernsMode="" if "user" in namespaces else "host",
        ShmSize=_shm_size(container), Sysctls=config.linux.get("sysctl") or {}, Runtime="minirun",
        Isolation="", CpuShares=cpu.get("shares") or 0, Memory=memory.get("limit") or 0,
        NanoCpus=quota * 10**9 // period if by_cpus else 0,
        CgroupParent="", BlkioWeight=(limits.get("blockIO") or {}).get("weight") or 0,
        CpuPeriod=0 if by_cpus else period, CpuQuota=0 if by_cpus else quota,
        CpusetCpus=cpu.get("cpus") or "", CpusetMems=cpu.get("mems") or "",
        Devices=_devices(config.linux.get("devices") or []),
        DeviceRequests=_device_requests(record.gpus),
        MemoryReservation=memory.get("reservation") or 0,
        MemorySwap=memory.get("swap") or 0, MemorySwappiness=memory.get("swappiness"),
        OomKillDisable=bool(memory.get("disableOOMKiller")),
        PidsLimit=(limits.get("pids") or {}).get("limit"),
        Ulimits=[
            Fields(Name=row["type"][7:].lower(), Hard=row["hard"], Soft=row["soft"])
            for row in config.process.get("rlimits") or []
        ],
        MaskedPaths=config.linux.get("maskedPaths") or [],
        ReadonlyPaths=config.linux.get("readonlyPaths") or [],
    )  # fmt: skip


def _log_config(record: ContainerRecord) -> Fields:
    kept = record.output
    if kept is None and record.managed:
        return Fields(Type="none", Config={})
    shown = {f"max-{name[4:]}": str(value) for name, value in (kept or {}).items()}
    return Fields(Type="json-file", Config=shown)


def _bound(row: Fields) -> str:
    mode = f":{row['Mode']}" if row["Mode"] else ""
    return f"{row['Name'] or row['Source']}:{row['Destination']}{mode}"


def _beyond(those: Any, others: Any) -> list[str]:
    return [name for name in those if name not in set(others)]


def _shared(container: Container, kind: str) -> str:
    """Return whose a namespace is, in docker's words: host, container:ID, "" for its own."""
    if other := container.record.joined.get(kind):
        return f"container:{other}"
    return container.config.namespaces.get(kind, "host")


def _ipc_mode(container: Container) -> str:
    if shared := _shared(container, "ipc"):
        return shared
    if container.record.shared_memory:
        return "shareable"
    has_shm = any(row["destination"] == run_config.SHM for row in container.config.raw["mounts"])
    return "private" if has_shm else "none"


def network_mode(container: Container) -> str:
    """Return docker's NetworkMode: bridge, a network's name, host, none, container:ID."""
    asked = container.record.network or {}
    path = container.config.namespaces.get("network")
    if path is None or asked.get("mode") == "host":
        return "host"
    if path:
        return _shared(container, "network")
    rows = asked.get("networks") or ()
    if asked.get("mode") == "networks" and rows:
        return str(rows[0]["network"])
    return str(asked.get("program") or "none") if asked.get("mode") == "userspace" else "none"


def _names_of(container: Container) -> dict[str, Any]:
    asked = container.record.network or {}
    hosts = [f"{name}:{address}" for name, address in asked.get("hosts") or ()]
    return {
        "Dns": list(asked.get("dns") or ()), "DnsOptions": list(asked.get("dns_options") or ()),
        "DnsSearch": list(asked.get("dns_search") or ()), "ExtraHosts": hosts or None,
    }  # fmt: skip


def _bindings(container: Container) -> dict[str, list[Fields]]:
    """Return the ports that -p has asked for: (port, protocol, address, first, last) of each."""
    found: dict[str, list[Fields]] = {}
    for port, protocol, address, first, last in (container.record.network or {}).get("ports") or ():
        number = "" if not first else str(first) if first == last else f"{first}-{last}"
        row = Fields(HostIp=address, HostPort=number)
        found.setdefault(f"{port}/{protocol}", []).append(row)
    return found


def _restart_policy(container: Container) -> Fields:
    name, _, count = (container.record.restart or "no").partition(":")
    return Fields(Name=name, MaximumRetryCount=int(count) if count.isdigit() else 0)


def _security(container: Container) -> list[str]:
    config = container.config
    found = ["no-new-privileges"] if config.process.get("noNewPrivileges") else []
    if container.record.managed and not config.linux.get("seccomp"):
        found.append("seccomp=unconfined")
    elif (profile := container.record.seccomp) and "/" in profile:
        found.append(f"seccomp={profile}")
    if profile := config.process.get("apparmorProfile"):
        found.append(f"apparmor={profile}")
    return found


def _shm_size(container: Container) -> int:
    for row in container.config.raw.get("mounts") or []:
        if row["destination"] == run_config.SHM:
            for option in row.get("options") or []:
                name, _, value = option.partition("=")
                if name == "size" and value[:-1].isdigit():
                    unit = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(value[-1].lower())
                    return int(value[:-1]) * unit if unit else int(value) if value.isdigit() else 0
    return _SHM


def _devices(rows: list[dict[str, Any]]) -> list[Fields]:
    return [
        Fields(
            PathOnHost=_node(row), PathInContainer=row["path"],
            CgroupPermissions=row.get("access") or "rwm",
        )
        for row in rows
    ]  # fmt: skip


def _node(row: dict[str, Any]) -> str:
    """Return the host's path of a device: the same one if that is this device, else by number."""
    path: str = row["path"]
    number = os.makedev(row.get("major", 0), row.get("minor", 0))
    try:
        if os.stat(path).st_rdev == number:
            return path
    except OSError:
        pass
    kind = "block" if row.get("type") == "b" else "char"
    return f"/dev/{kind}/{row.get('major', 0)}:{row.get('minor', 0)}"


def _device_requests(gpus: str | None) -> list[Fields] | None:
    if not gpus or gpus == "none":
        return None
    words = [word for word in gpus.removeprefix("device=").split(",") if word != "exclusive"]
    count = {"all": -1}.get(words[0] if words else "", 0)
    if words and words[0].startswith("count="):
        digits = words[0].removeprefix("count=")
        count = -1 if digits == "all" else int(digits) if digits.isdigit() else 0
    return [
        Fields(
            Driver="", Count=count, DeviceIDs=None if count else words,
            Capabilities=[["gpu"]], Options={},
        )
    ]  # fmt: skip


def _config(container: Container, image: Image | None, args: list[str]) -> Fields:
    record, config = container.record, container.config
    declared, user = record.declared or {}, config.process.get("user") or {}
    entrypoint = list(image.entrypoint) if image else []
    begins = bool(entrypoint) and args[: len(entrypoint)] == entrypoint
    uid, gid = user.get("uid", 0), user.get("gid", 0)
    checked = record.health
    return Fields(
        Hostname=config.raw.get("hostname", ""), Domainname=config.raw.get("domainname", ""),
        User=f"{uid}:{gid}" if uid or gid else "",
        ExposedPorts={port: {} for port in _exposed(container)},
        Tty=config.terminal, OpenStdin=record.interactive,
        Env=[f"{name}={value}" for name, value in config.environment.items()],
        Cmd=args[len(entrypoint) :] if begins else args,
        **({"Healthcheck": checked} if checked else {}), Image=record.image or "",
        Volumes={path: {} for path in declared.get("volumes") or ()} or None,
        WorkingDir=config.process.get("cwd", "").rstrip("/"),
        Entrypoint=entrypoint if begins else None,
        Labels=record.labels, StopSignal=declared.get("stop_signal", ""),
        StopTimeout=record.stop_timeout,
    )  # fmt: skip


def _exposed(container: Container) -> list[str]:
    declared = [str(port) for port in (container.record.declared or {}).get("ports") or ()]
    whole = [port if "/" in port else f"{port}/tcp" for port in declared]
    return sorted({*whole, *_bindings(container)})


def _network_rows(container: Container) -> list[str]:
    return [str(row["network"]) for row in (container.record.network or {}).get("networks") or ()]


def _leases(container: Container, name: str) -> list[Lease]:
    found = leases.all_of(container.settings.store, name)
    return [lease for lease in found if lease.container == container.directory]


def _network_settings(container: Container, own: list[Lease]) -> Fields:
    published = leases.published(container.settings.store, container.record)
    ports: dict[str, list[Fields] | None] = dict.fromkeys(_exposed(container))
    for port in published if container.record.status != state.STOPPED else ():
        row = Fields(HostIp=port["host_ip"] or "0.0.0.0", HostPort=str(port["host_port"]))
        key = f"{port['port']}/{port['protocol']}"
        ports[key] = [*(ports.get(key) or ()), row]
    names = _network_rows(container) or [network_mode(container)]
    rows = {
        name: _endpoint(container, name, [one for one in own if one.network == name])
        for name in names
    }
    first = rows[names[0]] if names[0] == network.DEFAULT else _nothing()
    pid = container.record.pid
    return Fields(
        Bridge="", SandboxID="", SandboxKey=f"/proc/{pid}/ns/net" if pid else "",
        Ports=ports, **{key: first[key] for key in _SHOWN}, Networks=rows,
    )  # fmt: skip


_SHOWN = (
    "EndpointID", "Gateway", "GlobalIPv6Address", "GlobalIPv6PrefixLen", "IPAddress", "IPPrefixLen",
    "IPv6Gateway", "MacAddress",
)  # fmt: skip
"""What docker says of the default network above the list of networks too."""


def _nothing() -> Fields:
    """Return what docker says of a network that the container is not on at the moment."""
    return Fields(
        IPAMConfig=None, Links=None, Aliases=None, MacAddress="", NetworkID="", EndpointID="",
        Gateway="", IPAddress="", IPPrefixLen=0, IPv6Gateway="", GlobalIPv6Address="",
        GlobalIPv6PrefixLen=0, DNSNames=None,
    )  # fmt: skip


def _endpoint(container: Container, name: str, own: list[Lease]) -> Fields:
    found = _nothing()
    if not own:
        return found
    lease = own[0]
    found |= {
        "MacAddress": lease.mac, "IPAddress": lease.address, "NetworkID": name,
        "EndpointID": lease.link, "GlobalIPv6Address": lease.address6,
        "Aliases": list(lease.names), "DNSNames": list(lease.names),
    }  # fmt: skip
    try:
        net = network.load(container.settings.store, name)
    except (StateError, OSError, network.NetworkError):
        return found
    found |= {"Gateway": net.gateway, "IPPrefixLen": int(net.subnet.rpartition("/")[2])}
    if lease.address6:
        prefix = int(net.subnet6.rpartition("/")[2] or 0)
        found |= {"IPv6Gateway": net.gateway6, "GlobalIPv6PrefixLen": prefix}
    return found
