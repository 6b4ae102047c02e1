"""The flags of `run`: those that make a config.json, and those that say how it is run."""

from __future__ import annotations

from minirun.cli.flags import Flags, flag
from minirun.core.keeping.choices import Choices

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
    workdir: str = flag("-w")
    user: str = flag("-u")
    hostname: str = flag("-h")
    help: bool = flag()
    memory: str = flag("-m")
    cpus: str
    pids_limit: str
    ulimit: list[str]
    read_only: bool
    cap_add: list[str]
    cap_drop: list[str]
    security_opt: list[str]
    device: list[str]
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
    earlier = b""
    """Not a flag: log lines written before the container existed."""
    stop_signal, progress = "", ""
    """Flags of `run` alone: nothing in config.json says them."""

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
        return tuple(text for text in self.device if text[:1] != "/" and "=" in text)


class RunFlags(ConfigFlags):
    """Run a command in a new container, and show the seven stages of its start on a terminal."""

    command, mixed = "run", False

    stop_signal: str
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
    log_opt: list[str]
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
