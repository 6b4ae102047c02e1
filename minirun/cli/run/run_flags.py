"""The flags of `run`: those that make a config.json, and those that say how it is run."""

from __future__ import annotations

from minirun.cli.flags import Flag, Flags, flag, name_of
from minirun.common.docker_record import STOP_TIMEOUT
from minirun.core.keeping.choices import Choices

LEFT_OUT = {
    "--link": "an old way: docker network create NET, and --network NET: names are known there",
    "--link-local-ip": "give the network a subnet: minirun network create --subnet",
    "--use-api-socket": "there is no daemon, and so no socket",
    "--volume-driver": "volumes are folders of this machine: minirun volume create",
    "--disable-content-trust": "docker's signatures ended in 2025; a digest says which image it is",
    "--storage-opt": "there is one way to store: OverlayFS; what is written is bounded by the disk",
    "--kernel-memory": "Linux has no such limit any more (since 5.16)",
    "--cpu-count": "Windows alone has it: --cpus",
    "--cpu-percent": "Windows alone has it: --cpus",
    "--io-maxbandwidth": "Windows alone has it: --device-read-bps",
    "--io-maxiops": "Windows alone has it: --device-read-iops",
}
"""docker's flags that are left out on purpose: why, and what to do."""
ONLY_WITH_BUNDLE = frozenset(
    (
        "console_socket", "pidfd_socket", "preserve_fds", "keep", "no_pivot", "no_new_keyring",
    )
)  # fmt: skip
"""Flags of `run` that `run IMAGE` refuses."""
WITH_BUNDLE = ONLY_WITH_BUNDLE | frozenset(
    (
        "bundle", "detach", "pid_file", "no_subreaper", "dry_run",
        "gpus", "gpu_driver", "driver_root", "dev_root", "load_kmods", "rm", "interactive", "quiet",
    )
)  # fmt: skip
"""Flags that `run --bundle` accepts; the last three are always on. It refuses others."""


def _rows(*rows: tuple[str, ...]) -> dict[str, Flag]:
    """Return flags by attribute; a row's sixth member is another name of the flag."""
    found = {}
    for key, read, path, value, text, *more in rows:
        kind = {"": "bool", "+": "list[str]"}.get(value[-1:], "str")
        names = (name_of(key), *more)
        found[key] = Flag(names, kind, value=value.rstrip("+"), text=text, read=read, path=path)
    return found


# fmt: off
PROPERTIES = _rows(
    # flag, what reads its value, property of config.json, the value in --help, what --help says
    ("memory", "memory", "linux.resources.memory.limit", "SIZE",
     "memory limit: bytes, or with b, k, m, g", "-m"),
    ("memory_swap", "size_or_none", "linux.resources.memory.swap", "SIZE",
     "limit of memory and swap together; -1: no limit of swap"),
    ("memory_reservation", "memory", "linux.resources.memory.reservation", "SIZE",
     "the limit when the machine is short of memory"),
    ("memory_swappiness", "swappiness", "linux.resources.memory.swappiness", "N",
     "how readily it is swapped out: 0 to 100 (cgroup v1)"),
    ("oom_kill_disable", "switch", "linux.resources.memory.disableOOMKiller", "",
     "wait instead of ending a process when memory runs out (cgroup v1)"),
    ("oom_score_adj", "oom_score", "process.oomScoreAdj", "N",
     "which process ends first when the machine is out of memory: -1000 to 1000"),
    ("cpus", "cpus", "linux.resources.cpu", "NUMBER", "limit of CPUs, such as 1.5"),
    ("cpu_shares", "shares", "linux.resources.cpu.shares", "N", "share of busy CPUs (usual: 1024)",
     "-c"),
    ("cpu_period", "period", "linux.resources.cpu.period", "MICROSECONDS",
     "the time in which --cpu-quota counts (usual: 100000)"),
    ("cpu_quota", "quota", "linux.resources.cpu.quota", "MICROSECONDS",
     "CPU time in each period; -1: no limit"),
    ("cpu_rt_period", "number", "linux.resources.cpu.realtimePeriod", "MICROSECONDS",
     "the same for processes of a real-time class"),
    ("cpu_rt_runtime", "number", "linux.resources.cpu.realtimeRuntime", "MICROSECONDS",
     "their CPU time in each period"),
    ("cpuset_cpus", "cpuset", "linux.resources.cpu.cpus", "LIST", "the CPUs it may run on: 0-3,5"),
    ("cpuset_mems", "cpuset", "linux.resources.cpu.mems", "LIST",
     "the NUMA nodes it has memory of"),
    ("pids_limit", "pids", "linux.resources.pids", "N",
     "limit of processes (default: 2048); 0 or -1: none"),
    ("blkio_weight", "weight", "linux.resources.blockIO.weight", "N",
     "share of a busy disk: 10 to 1000"),
    ("blkio_weight_device", "weights", "linux.resources.blockIO.weightDevice", "DEV:N+",
     "the same for one disk"),
    ("device_read_bps", "bytes_per_second", "linux.resources.blockIO.throttleReadBpsDevice",
     "DEV:SIZE+", "bytes read from a disk in a second: /dev/sda:1mb"),
    ("device_write_bps", "bytes_per_second", "linux.resources.blockIO.throttleWriteBpsDevice",
     "DEV:SIZE+", "bytes written to it in a second"),
    ("device_read_iops", "requests_per_second", "linux.resources.blockIO.throttleReadIOPSDevice",
     "DEV:N+", "reads of a disk in a second"),
    ("device_write_iops", "requests_per_second", "linux.resources.blockIO.throttleWriteIOPSDevice",
     "DEV:N+", "writes to it in a second"),
    ("device", "devices", "linux", "DEV[:DEV[:rwm]]+",
     "add a host's device, the devices of a folder, or a CDI device: vendor.com/class=name"),
    ("device_cgroup_rule", "device_rules", "linux.resources.devices", "RULE+",
     "let it use devices: 'c 189:* rwm'"),
    ("ulimit", "ulimits", "process.rlimits", "NAME=SOFT[:HARD]+",
     "resource limit of the command, such as nofile=1024:2048; -1: none"),
    ("sysctl", "sysctls", "linux.sysctl", "NAME=VALUE+",
     "a kernel parameter of its namespaces, such as net.core.somaxconn=1024"),
    ("shm_size", "shm_size", "mounts.destination=/dev/shm.options", "SIZE",
     "size of /dev/shm (default: 64m)"),
    ("cgroupns", "host_or_private", "linux.namespaces.type=cgroup", "MODE", "private or host"),
    ("uts", "host_or_private", "linux.namespaces.type=uts", "MODE",
     "host: the host's name is its own"),
    ("pid", "pid_mode", "linux.namespaces.type=pid", "MODE",
     "host, or container:ID: it sees their processes"),
)
"""Flags whose value is a property of config.json. A value's + says: the flag may stand again."""
# fmt: on


HEALTH_FLAGS = frozenset(
    (
        "health_cmd", "health_interval", "health_timeout", "health_retries", "health_start_period",
        "health_start_interval", "no_healthcheck",
    )
)  # fmt: skip


def is_cdi_name(text: str) -> bool:
    """Return True for a value of --device that is no path, but CDI's name: vendor.com/class=x."""
    return text[:1] != "/" and "=" in text


class ConfigFlags(Flags):
    """The flags that make a config.json of an image: those of `run IMAGE` and of `spec IMAGE`.

    The first three say nothing to config.json: so a line of `run` can be made one of `spec`.
    """

    interactive: bool = flag("-i")
    detach: bool = flag("-d")
    rm: bool
    tty: bool = flag("-t")
    name: str
    env: list[str] = flag("-e")
    env_file: list[str]
    volume: list[str] = flag("-v")
    mount: list[str]
    tmpfs: list[str]
    volumes_from: list[str]
    workdir: str = flag("-w")
    user: str = flag("-u")
    hostname: str = flag("-h")
    help: bool = flag()
    read_only: bool
    cap_add: list[str]
    cap_drop: list[str]
    privileged: bool
    group_add: list[str]
    security_opt: list[str]
    ipc: str
    init: bool
    runtime: str
    isolation: str
    userns: str
    label: list[str] = flag("-l")
    label_file: list[str]
    expose: list[str]
    cgroup_parent: str
    cdi_spec_dir: list[str]
    network: list[str] = flag("--net")
    publish: list[str] = flag("-p")
    publish_all: bool = flag("-P")
    ip: str
    ip6: str
    mac_address: str
    network_alias: list[str] = flag("--net-alias")
    dns: list[str]
    dns_search: list[str]
    dns_option: list[str] = flag("--dns-opt")
    add_host: list[str]
    domainname: str
    uidmap: list[str]
    gidmap: list[str]
    gpus: str = flag("--gpu")
    gpu_driver: str
    driver_root: str
    dev_root: str
    load_kmods: bool
    gpu_mode: str = flag(default="legacy")
    gpu_mps: str = flag(optional="on")
    entrypoint: str
    annotation: list[str]
    quiet: bool = flag("-q")
    pull: str = flag(default="missing")
    platform: str
    rows = PROPERTIES
    left_out = LEFT_OUT
    earlier = b""
    """Not a flag: log lines written before the container existed."""
    stop_signal, progress = "", ""
    """Flags of `run` and `create` alone: nothing in config.json says them."""

    def or_before(self, before: Choices) -> ConfigFlags:
        """Take the flags before the command for those of the same names that are not given."""
        for key in ("gpu_driver", "gpus", "driver_root", "dev_root", "load_kmods"):
            value = getattr(before, key)
            if value and key not in self.given:
                setattr(self, key, value)
                self.given.add(key)
        return self

    @property
    def cdi_devices(self) -> tuple[str, ...]:
        """The values of --device that are no path, but CDI's name of a device."""
        return tuple(filter(is_cdi_name, self.value("device")))


class CreateFlags(ConfigFlags):
    """Make a container whose command waits for `start`."""

    command, mixed = "create", False
    stop_signal: str
    stop_timeout: str = flag(default=str(STOP_TIMEOUT))
    restart: str = flag(default="no")
    cidfile: str
    log_driver: str = flag(default="json-file")
    log_opt: list[str]
    detach_keys: str
    attach: list[str] = flag("-a")
    health_cmd: str
    health_interval: str
    health_timeout: str
    health_retries: str
    health_start_period: str
    health_start_interval: str
    no_healthcheck: bool


class RunFlags(CreateFlags):
    """Run a command in a new container, and show the seven stages of its start on a terminal."""

    command, mixed = "run", False
    sig_proxy: str = flag(default="true", optional="true")

    progress: str = flag(default="auto")
    pace: str
    web: str = flag(optional="0")
    plain: bool
    dry_run: bool
    step: str = flag(optional="stage")
    script: str
    rehearse: bool
    large: bool
    snapshots: bool
    log: str
    log_format: str
    bundle: str = flag("-b")
    pid_file: str
    console_socket: str
    pidfd_socket: str
    preserve_fds: str
    keep: bool
    no_pivot: bool
    no_new_keyring: bool
    no_subreaper: bool
