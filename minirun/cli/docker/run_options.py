"""From the words after `minirun run` to what they ask for.

Most runs have few flags. The words of the others are read by modules that are imported if such a
flag is given: a table, as that of the commands.
"""

from __future__ import annotations

import os

from minirun.cli import part
from minirun.cli.flags import Flags, flag
from minirun.core.errors import ImageError, UsageError
from minirun.core.keeping.choices import Choices
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.gpu.asked.variables import GPU_DRIVERS
from minirun.image import split, store, workshop
from minirun.oci.run_config import PIDS_LIMIT, RunOptions

with lazy:
    from minirun.gpu.asked import (
        request,
        run_request,  # 5 ms, for GPUs
    )
    from minirun.gpu.share import mps  # 8 ms, for MPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.image.store import Image

READERS = {
    "minirun.cli.words": frozenset(
        (
            "env", "env_file", "memory", "cpus", "pids_limit", "ulimit", "device", "uidmap",
            "gidmap", "annotation",
        )
    ),
    "minirun.cli.docker.mounts": frozenset(("volume", "mount", "tmpfs")),
    "minirun.cli.docker.rights": frozenset(("user", "security_opt")),
}  # fmt: skip
"""Module → flags. Its `add(run, flags, image)` returns RunOptions with what they say."""
_OF_GPUS = frozenset(
    ("gpus", "driver_root", "dev_root", "load_kmods", "device", "env", "env_file", "annotation")
)
"""Flags that may ask for GPUs or CDI devices; without them only the image's variables may."""

_OF_NETWORKS = frozenset(
    (
        "publish", "publish_all", "ip", "ip6", "mac_address", "network_alias", "dns", "dns_search",
        "dns_option", "add_host", "domainname",
    )
)  # fmt: skip
"""Flags that say something of networks, also with --network none."""

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
"""All that `run --bundle` does, be it always, as the last three; it refuses others."""

_HONOURED = frozenset(("volumes", "stop_signal"))
"""What an image declares that needs more than to be kept."""


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
    """No flag: events of before the container, as lines for its log."""
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
    """The flags of `run` and `run --bundle`."""

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


def from_flags(
    flags: ConfigFlags, settings: Settings, container_id: str = ""
) -> tuple[RunOptions, str]:
    """Return what the flags ask for, and the image's name.

    For `container_id`, which is about to be made, GPUs that are chosen here (count=N) are reserved.
    Raises MinirunError, OSError.
    """
    flags.or_before(settings.choices)
    flags.check("gpu_mode", "legacy", "hook", "cdi")
    flags.check("gpu_driver", "", *GPU_DRIVERS)
    image = _image(flags, settings, container_id)
    cwd = flags.workdir or image.workdir or "/"
    if not cwd.startswith("/"):
        text = f"the working directory {cwd!r} is invalid, it needs to be an absolute path"
        raise UsageError(text)
    run = RunOptions(
        args=_command(flags, image),
        env=image.env,
        cwd=cwd,
        terminal=flags.tty,
        hostname=flags.hostname,
        pids_limit=PIDS_LIMIT,
        readonly=flags.read_only,
        cap_add=tuple(flags.cap_add),
        cap_drop=tuple(flags.cap_drop),
        choices=Choices(layers=image.layers, volatile=flags.rm),
        declared=image.declared,
    )
    given = flags.given | ({"user"} if image.user else set())
    for module, names in READERS.items():
        if given & names:
            run = part(module, "add")(run, flags, image)
    if flags.stop_signal or not _HONOURED.isdisjoint(image.declared):
        run = part("minirun.cli.docker.declared", "add")(run, flags)
    if given & _OF_GPUS or any(text.startswith(("NVIDIA_", "CUDA_")) for text in image.env):
        run = _with_gpus(run, flags, image, settings, container_id)
    words = flags.network or list(filter(None, [os.environ.get("MINIRUN_NETWORK")]))
    if words != ["none"] or given & _OF_NETWORKS:
        add = part("minirun.cli.docker.network_flags", "add")
        run = add(run, flags, words, settings, container_id)
    if "gpu_mps" in given:
        run = mps.join(run, flags.gpu_mps, settings)
    return run, image.name


def _image(flags: ConfigFlags, settings: Settings, container_id: str) -> Image:
    """Return the image; one that is missing is pulled, or made by a recipe. Raises ImageError."""
    flags.check("pull", "missing", "always", "never")
    found = None
    if flags.pull != "always" and not flags.platform:
        try:
            found = store.find(settings.store, split(flags.args[0]))
        except ImageError:
            pass  # it is broken, which a pull mends
    image: Image = found or workshop.call("missing")(flags, settings, container_id)
    return image


def _with_gpus(
    run: RunOptions, flags: ConfigFlags, image: Image, settings: Settings, container_id: str
) -> RunOptions:
    """Return the options with what flags, environment and annotations say of GPUs.

    Raises MinirunError, OSError.
    """
    asked = request.GpuOptions(
        gpus=flags.gpus if "gpus" in flags.given else None, driver=flags.gpu_driver,
        driver_root=flags.driver_root, dev_root=flags.dev_root, load_kmods=flags.load_kmods,
        exclusive=settings.choices.exclusive, mode=flags.gpu_mode, devices=flags.cdi_devices,
        spec_dirs=tuple(flags.cdi_spec_dir), annotations=run.annotations,
        variables=run.env[len(image.env) :], mapped=bool(flags.uidmap), image=image.name,
        image_env=image.env,
    )  # fmt: skip
    if asked.is_empty:
        return run
    run = run._replace(declared=run.declared | asked.of_image)
    gpus = run_request.resolve(asked, settings, container_id)
    uid, gid, groups = run.user
    return run._replace(
        user=(uid, gid, groups), gpu_env=gpus.env,
        gpu_hook=gpus.hook, cdi=gpus.cdi, warnings=gpus.warnings,
        choices=gpus.choices._replace(layers=image.layers, volatile=flags.rm),
    )  # fmt: skip


def log_settings(flags: RunFlags, settings: Settings) -> Settings:
    """Return the settings with what --log and --log-format of `run` say. Raises UsageError."""
    flags.check("log_format", "", "text", "json")
    log_format = flags.log_format or settings.log_format
    return settings._replace(log=flags.log or settings.log, log_format=log_format)


def _command(flags: ConfigFlags, image: Image) -> tuple[str, ...]:
    """The image's entrypoint and command, changed as docker has it."""
    given = tuple(flags.args[1:])
    if "entrypoint" in flags.given:  # "" takes the image's away, and its command with it
        args = (*filter(None, [flags.entrypoint]), *given)
    else:
        args = tuple(image.entrypoint) + (given or tuple(image.cmd))
    if not args:
        raise UsageError("no command specified", "the image has none: minirun run IMAGE COMMAND")
    return args
