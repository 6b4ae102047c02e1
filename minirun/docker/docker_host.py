"""What docker's `inspect` says was asked for a container: HostConfig, and Mounts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from minirun.common import docker_record
from minirun.core.keeping import places
from minirun.core.keeping.numbers import whole
from minirun.core.process.caps import NUMBERS
from minirun.docker.docker_network import bindings, names_of, network_mode
from minirun.faces.show.template.values import Fields, NilList, NilMap
from minirun.oci import run_config
from minirun.running import volumes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.common.docker_record import DockerRecord, MountRecord
    from minirun.core.container import Container
    from minirun.core.keeping.container_record import ContainerRecord

_THROTTLES = ("BlkioDeviceReadBps", "BlkioDeviceWriteBps", "BlkioDeviceReadIOps",
              "BlkioDeviceWriteIOps")  # fmt: skip
"""Limits that no flag of `run` sets."""
_SHM = 64 << 20
_CPUS_PERIOD = 100_000


def _defaults() -> set[str]:
    """Return where every container has mounts without being asked."""
    return {row["destination"] for row in run_config.example()["mounts"]}


def _own_files() -> set[str]:
    return {f"{places.NETWORK_FILES}/{name}" for name in run_config.NETWORK_FILES}


def mounts(container: Container) -> list[Fields]:
    """Return what is mounted besides what every container has: bind mounts, volumes, tmpfs.

    As with docker --tmpfs is not among them: HostConfig has it.
    """
    found = []
    known = {row["target"]: row for row in docker_record.of(container.record).mounts or ()}
    for row in container.config.raw.get("mounts") or []:
        options, source = row.get("options") or [], row.get("source", "")
        is_bind = row.get("type") == "bind" or bool({"bind", "rbind"} & set(options))
        is_tmpfs = row.get("type") == "tmpfs" and row["destination"] not in _defaults()
        is_flags = row["destination"] in (*run_config.IPC_MOUNTS, run_config.INIT)
        noted = known.get(row["destination"])
        if noted and "tmpfs" in noted:
            continue
        if noted or (is_bind and source not in _own_files() and not is_flags) or is_tmpfs:
            found.append(_mount(container, noted, row, is_bind=is_bind))
    return found


def _mount(
    container: Container, noted: MountRecord | None, row: dict[str, Any], *, is_bind: bool
) -> Fields:
    options, source = row.get("options") or [], row.get("source", "")
    kind = noted["type"] if noted else "bind" if is_bind else "tmpfs"
    name = ""
    if (
        noted and kind == "volume"
    ):  # without a name: in the container's directory, as the image declares it
        name = noted["name"] or f"{container.id}-{source.rpartition('/')[2]}"
    if is_bind and not source.startswith("/"):
        source = f"{container.directory}/{source}"
    shown = [word for word in options if word not in ("bind", "rbind", "rprivate", "rro")]
    spread = [word for word in options if word.lstrip("r") in ("private", "shared", "slave")]
    docker = docker_record.of(container.record)
    mode = _modes(docker).get(row["destination"], "") if docker.asked else ",".join(shown)
    return Fields(
        Type=kind, Name=name, Source=source if is_bind else "", Destination=row["destination"],
        Driver=volumes.LOCAL if name else "", Mode=mode, RW="ro" not in options,
        Propagation=(spread or ["rprivate"])[-1] if kind == "bind" else "",
    ).optionally(Name=name, Driver=volumes.LOCAL if name else "")  # fmt: skip


def _modes(docker: DockerRecord) -> dict[str, str]:
    """Return where -v and --mount mount → Mode: -v's last word; z, docker's, for a named volume."""
    found = {}
    noted = {row["target"]: row for row in docker.mounts or ()}
    for text in docker.asked.get("volume", ()):
        parts = text.split(":")
        if len(parts) > 1:
            target = os.path.normpath(parts[1])
            is_volume = target in noted and noted[target]["type"] == "volume"
            found[target] = parts[2] if len(parts) > 2 else "z" if is_volume else ""
    for row in _mount_flags(docker):
        found[os.path.normpath(row["Target"])] = "z" if row["Type"] == "volume" else ""
    return found


def _binds(docker: DockerRecord, rows: list[Fields]) -> list[str]:
    """Return what -v says, with the whole path of a folder; of a bundle what its mounts say."""
    if not docker.asked:
        return [_bound(row) for row in rows if row["Type"] in ("bind", "volume")]
    sources = {row["target"]: row["source"] for row in docker.mounts or ()}
    found = []
    for text in docker.asked.get("volume", ()):
        source, colon, rest = text.partition(":")
        if source.startswith("."):
            source = sources.get(os.path.normpath(rest.partition(":")[0]), source)
        found += [f"{source}:{rest}"] if colon else []
    return found


def _mount_flags(docker: DockerRecord) -> list[Fields]:
    """Return what --mount says."""
    found = []
    for text in docker.asked.get("mount", ()):
        words = dict(word.partition("=")[::2] for word in text.split(","))
        source = words.get("source", words.get("src", ""))
        target = words.get("target") or words.get("dst") or words.get("destination", "")
        only = next((words[word] for word in ("readonly", "ro") if word in words), "false")
        row = Fields(Type=words.get("type", "volume"), Source=source, Target=target)
        found.append(row.optionally(Source=source, ReadOnly=only in ("", "1", "true")))
    return found


def _in_full(names: Sequence[str] | None) -> list[str]:
    """Return capabilities as docker shows them since version 23: CAP_CHOWN; ALL stands alone."""
    upper = {name.upper() for name in names or ()}
    if "ALL" in upper:
        return ["ALL"]
    return sorted({name if name.startswith("CAP_") else f"CAP_{name}" for name in upper})


def host_config(container: Container) -> Fields:
    """Return HostConfig. Raises OSError."""
    record, config = container.record, container.config
    limit = _limits(record.resources or config.resources)
    held = ((config.process.get("capabilities") or {}).get("bounding")) or []
    docker = docker_record.of(record)
    added, dropped = _in_full(docker.cap_add), _in_full(docker.cap_drop)
    asked = docker.asked
    groups = asked.get("group_add", [])
    sysctls = dict(text.partition("=")[::2] for text in asked.get("sysctl", ()))
    if not docker.managed:  # a bundle's: what differs from docker's default
        groups = [str(gid) for gid in (config.process.get("user") or {}).get("additionalGids", [])]
        sysctls = config.linux.get("sysctl") or {}
        added = _beyond(held, run_config.CAPABILITIES)
        dropped = _beyond(run_config.CAPABILITIES, held)
    tmpfs = {row["target"]: row["tmpfs"] for row in docker.mounts or () if "tmpfs" in row}
    privileged = set(held) >= set(NUMBERS) and not config.linux.get("maskedPaths")
    quota, period = limit("cpu.quota", 0), limit("cpu.period", 0)
    by_cpus = quota > 0 and period == _CPUS_PERIOD  # --cpus; docker's NanoCpus
    namespaces = config.namespaces
    return Fields(
        Binds=_binds(docker, mounts(container)) or NilList(),
        ContainerIDFile=asked.get("cidfile", ""), LogConfig=_log_config(record),
        NetworkMode=network_mode(container), PortBindings=bindings(container),
        RestartPolicy=_restart_policy(container), AutoRemove=docker.auto_remove,
        VolumeDriver="", VolumesFrom=asked.get("volumes_from") or NilList(), ConsoleSize=[0, 0],
        CapAdd=added or NilList(), CapDrop=dropped or NilList(),
        CgroupnsMode="private" if "cgroup" in namespaces else "host",
        **names_of(container),
        GroupAdd=groups or NilList(),
        IpcMode=_ipc_mode(container), Cgroup="", Links=NilList(),
        OomScoreAdj=config.process.get("oomScoreAdj") or 0, PidMode=_shared(container, "pid"),
        Privileged=privileged, PublishAllPorts=asked.get("publish_all", False),
        ReadonlyRootfs=bool((config.raw.get("root") or {}).get("readonly")),
        SecurityOpt=_security(container) or NilList(),
        UTSMode=_shared(container, "uts"), UsernsMode=asked.get("userns", ""),
        ShmSize=_shm_size(container), Runtime="minirun",
        Isolation="", CpuShares=limit("cpu.shares", 0), Memory=limit("memory.limit", 0),
        NanoCpus=quota * 10**9 // period if by_cpus else 0,
        CgroupParent=asked.get("cgroup_parent", ""), BlkioWeight=limit("blockIO.weight", 0),
        BlkioWeightDevice=[], **dict.fromkeys(_THROTTLES, NilList()),
        CpuPeriod=0 if by_cpus else period, CpuQuota=0 if by_cpus else quota,
        CpuRealtimePeriod=limit("cpu.realtimePeriod", 0),
        CpuRealtimeRuntime=limit("cpu.realtimeRuntime", 0),
        CpusetCpus=limit("cpu.cpus", ""), CpusetMems=limit("cpu.mems", ""),
        Devices=_devices(config.linux.get("devices") or []),
        DeviceCgroupRules=asked.get("device_cgroup_rule") or NilList(),
        DeviceRequests=_device_requests(docker.gpus),
        MemoryReservation=limit("memory.reservation", 0), MemorySwap=limit("memory.swap", 0),
        MemorySwappiness=limit("memory.swappiness", None),
        OomKillDisable=limit("memory.disableOOMKiller", False), PidsLimit=limit("pids.limit", None),
        Ulimits=[
            Fields(Name=row["type"][7:].lower(), Hard=row["hard"], Soft=row["soft"])
            for row in config.process.get("rlimits") or []
        ] or NilList(),
        CpuCount=0, CpuPercent=0, IOMaximumIOps=0, IOMaximumBandwidth=0,
        MaskedPaths=config.linux.get("maskedPaths") or [],
        ReadonlyPaths=config.linux.get("readonlyPaths") or [],
    ).optionally(
        Annotations=config.raw.get("annotations") or NilMap(), Tmpfs=tmpfs or NilMap(),
        StorageOpt=NilMap(), KernelMemory=0, KernelMemoryTCP=0,
        Sysctls=sysctls or NilMap(),
        Mounts=_mount_flags(docker) or NilList(), Init=asked.get("init"),
    )  # fmt: skip


def _limits(resources: dict[str, Any]) -> Callable[[str, Any], Any]:
    """Return a look-up by a path of minirun.cgroups.resources.LIMITS, and what null means there."""

    def limit(path: str, default: Any) -> Any:
        section, _, member = path.partition(".")
        value = (resources.get(section) or {}).get(member)
        return default if value is None else value

    return limit


def _log_config(record: ContainerRecord) -> Fields:
    docker = docker_record.of(record)
    kept = docker.output
    if kept is None and docker.managed:
        return Fields(Type="none", Config={})
    shown = {f"max-{name[4:]}": str(value) for name, value in (kept or {}).items()}
    if docker.managed:
        shown = dict(sorted(text.partition("=")[::2] for text in docker.asked.get("log_opt", ())))
    return Fields(Type="json-file", Config=shown)


def _bound(row: Fields) -> str:
    mode = f":{row['Mode']}" if row["Mode"] else ""
    return f"{row['Name'] or row['Source']}:{row['Destination']}{mode}"


def _beyond(those: Any, others: Any) -> list[str]:
    return [name for name in those if name not in set(others)]


def _shared(container: Container, kind: str) -> str:
    """Return whose a namespace is, in docker's words: host, container:ID, "" for its own."""
    if other := docker_record.of(container.record).joined.get(kind):
        return f"container:{other}"
    return container.config.namespaces.get(kind, "host")


def _ipc_mode(container: Container) -> str:
    if shared := _shared(container, "ipc"):
        return shared
    if docker_record.of(container.record).shared_memory:
        return "shareable"
    has_shm = any(row["destination"] == run_config.SHM for row in container.config.raw["mounts"])
    return "private" if has_shm else "none"


def _restart_policy(container: Container) -> Fields:
    name, _, count = (docker_record.of(container.record).restart or "no").partition(":")
    return Fields(Name=name, MaximumRetryCount=whole(count) or 0)


def _security(container: Container) -> list[str]:
    config = container.config
    found = ["no-new-privileges"] if config.process.get("noNewPrivileges") else []
    docker = docker_record.of(container.record)
    if docker.managed and not config.linux.get("seccomp"):
        found.append("seccomp=unconfined")
    elif (profile := docker.seccomp) and "/" in profile:
        found.append(f"seccomp={profile}")
    if profile := config.process.get("apparmorProfile"):
        found.append(f"apparmor={profile}")
    return found


def _shm_size(container: Container) -> int:
    for row in container.config.raw.get("mounts") or []:
        if row["destination"] == run_config.SHM:
            for option in row.get("options") or []:
                name, _, value = option.partition("=")
                if name == "size" and value:
                    unit = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(value[-1].lower())
                    return (whole(value[:-1] if unit else value) or 0) * (unit or 1)
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


def _device_requests(gpus: str | None) -> list[Fields]:
    if not gpus or gpus == "none":
        return NilList()
    words = [word for word in gpus.removeprefix("device=").split(",") if word != "exclusive"]
    count = {"all": -1}.get(words[0] if words else "", 0)
    if words and words[0].startswith("count="):
        digits = words[0].removeprefix("count=")
        count = -1 if digits == "all" else whole(digits) or 0
    return [
        Fields(
            Driver="", Count=count, DeviceIDs=NilList() if count else words,
            Capabilities=[["gpu"]], Options={},
        )
    ]  # fmt: skip
