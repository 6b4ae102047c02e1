"""From the flags of `run` and an image to RunOptions.

Most runs have few flags. Modules read the values of the others, each imported if such a flag is
given: READERS.
"""

from __future__ import annotations

import os

from minirun.cli.run.run_flags import PROPERTIES, ConfigFlags, RunFlags
from minirun.common.ports import exposed
from minirun.core.config import environment_of
from minirun.core.errors import ImageError, UsageError
from minirun.core.keeping.choices import Choices
from minirun.core.keeping.settings import Settings, unprivileged
from minirun.core.lazy import lazy
from minirun.gpu.vendors.signs import GPU_DRIVERS
from minirun.image import split, store, workshop
from minirun.oci.run_config import PIDS_LIMIT, RunOptions

with lazy:
    from minirun.cli import words
    from minirun.cli.run import mounts, network_flags, properties, rights
    from minirun.gpu.asked import (
        request,
        select,
        ways,  # 5 ms, for GPUs
    )
    from minirun.running import shelves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.image.store import Image

READERS = {
    words: frozenset(
        (
            "env", "env_file", "uidmap", "gidmap", "annotation", "label", "label_file",
        )
    ),
    rights: frozenset(("user", "group_add", "privileged", "security_opt")),
}  # fmt: skip
"""Module → flags. Its `add(run, flags, image)` returns RunOptions with what they say."""
_OF_GPUS = frozenset(
    ("gpus", "driver_root", "dev_root", "load_kmods", "device", "env", "env_file", "annotation")
)
"""Flags that may ask for GPUs or CDI devices; without them only the image's variables may."""

_BY_VARIABLES = ("nvidia", "amd", "habana")
"""Runtimes of --runtime that give GPUs by variables of the environment: minirun does so in-line."""
FLAGS_OF_MOUNTS = frozenset(("volume", "mount", "tmpfs", "volumes_from"))


def from_flags(
    flags: ConfigFlags, settings: Settings, container_id: str = ""
) -> tuple[RunOptions, Image]:
    """Return what the flags ask for, and the image.

    For `container_id`, which is about to be made, GPUs that are chosen here (count=N) are reserved.
    Raises MinirunError, OSError.
    """
    flags.or_before(settings.choices)
    flags.check("gpu_mode", "legacy", "hook", "cdi")
    flags.check("gpu_driver", "", *GPU_DRIVERS)
    flags.check("isolation", "", "default")
    flags.check("userns", "", "host")
    flags.check("runtime", "", "runc", "minirun", *_BY_VARIABLES)
    image = _image(flags, settings, container_id)
    run = _of_each(flags, image)
    of_image = image.user or not unprivileged()  # root's groups are those of the image, too
    given = flags.given | ({"user"} if of_image else set())
    for module, names in READERS.items():
        if given & names:
            run = module.add(run, flags, image)
    if flags.ipc:
        run = rights.with_ipc(run, flags.ipc, settings)
    if not given.isdisjoint(PROPERTIES):
        run = properties.add(run, flags, settings)
    if given & FLAGS_OF_MOUNTS:
        run = mounts.add(run, flags, settings)
    if "volumes" in image.declared:
        run = mounts.add_declared(run)
    if flags.init:
        run = rights.with_init(run)
    if flags.expose:
        ports = [*run.declared.get("ports", ()), *_exposed(flags.expose)]
        run = run._replace(declared=run.declared | {"ports": ports})
    if signal := flags.stop_signal or image.declared.get("stop_signal"):
        _check_signal(signal, flags)
        run = run._replace(declared=run.declared | {"stop_signal": signal})
    if given & _OF_GPUS or any(text.startswith(("NVIDIA_", "CUDA_")) for text in image.env):
        run = _with_gpus(run, flags, image, settings, container_id)
    networks = flags.network or list(filter(None, [os.environ.get("MINIRUN_NETWORK")]))
    run = network_flags.add(run, flags, networks, settings, container_id)
    if "gpu_mps" in given:
        run = shelves.join_mps(run, flags.gpu_mps, settings)
    return run, image


def _of_each(flags: ConfigFlags, image: Image) -> RunOptions:
    """Return the options that every run has, such as its command. Raises UsageError."""
    cwd = flags.workdir or image.workdir or "/"
    if not cwd.startswith("/"):
        text = f"the working directory {cwd!r} is invalid, it needs to be an absolute path"
        raise UsageError(text)
    return RunOptions(
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
        labels=image.declared.get("labels", {}),
        cgroup_parent=flags.cgroup_parent,
    )


def _image(flags: ConfigFlags, settings: Settings, container_id: str) -> Image:
    """Return the image; one that is missing is pulled, or built by a recipe of rootfs-tools.

    Raises ImageError.
    """
    flags.check("pull", "missing", "always", "never")
    found = None
    if flags.pull != "always" and not flags.platform:
        try:
            found = store.find(settings.store, split(flags.args[0]))
        except ImageError:
            pass  # it is broken, which a pull mends
    try:
        if not found and "gpus" in flags.given:
            select.parse_gpus(flags.gpus)  # before a registry is asked for what is no image
        return found or _missing(flags, settings, container_id)
    except (ImageError, UsageError) as error:
        name, value = flags.taken
        if name and _is_image(value, settings.store):
            error.hint = f"{name} has taken {value} as its value: {name} VALUE {value} …"
        raise


def _missing(flags: ConfigFlags, settings: Settings, container_id: str) -> Image:
    """Return an image that the workshop pulls or makes; keep the log of that. Raises ImageError."""
    image: Image
    image, flags.earlier = workshop.call("missing")(
        flags.args[0], settings, container_id, pull=flags.pull, platform=flags.platform,
        quiet=flags.quiet or flags.progress == "quiet",
    )  # fmt: skip
    return image


def _is_image(name: str, store_dir: str) -> bool:
    """Return True if there is an image of this name in the store."""
    try:
        return bool(store.find(store_dir, split(name)))
    except (ImageError, UsageError):
        return False


def _with_gpus(
    run: RunOptions, flags: ConfigFlags, image: Image, settings: Settings, container_id: str
) -> RunOptions:
    """Return the options with what flags, environment and annotations say of GPUs.

    Raises MinirunError, OSError.
    """
    variables, devices = run.env[len(image.env) :], flags.cdi_devices
    if flags.runtime == "nvidia":  # the user's word for what the image asks for
        theirs = [text for text in image.env if text.startswith(f"{request.VISIBLE}=")]
        variables, named = _cdi_names((*theirs, *variables))
        devices = (*devices, *named)
    asked = request.GpuOptions(
        gpus=flags.gpus if "gpus" in flags.given else None, driver=flags.gpu_driver,
        driver_root=flags.driver_root, dev_root=flags.dev_root, load_kmods=flags.load_kmods,
        exclusive=settings.choices.exclusive, mode=flags.gpu_mode, devices=devices,
        spec_dirs=tuple(flags.cdi_spec_dir), annotations=run.annotations,
        variables=variables, mapped=bool(flags.uidmap), image=image.name,
        image_env=image.env,
    )  # fmt: skip
    if asked.is_empty:
        return run
    run = run._replace(declared=run.declared | asked.of_image)
    gpus = ways.resolve(asked, settings, container_id)
    uid, gid, groups = run.user
    return run._replace(
        user=(uid, gid, groups), gpu_env=gpus.env,
        gpu_hook=gpus.hook, cdi=gpus.cdi, warnings=gpus.warnings,
        choices=gpus.choices._replace(layers=image.layers, volatile=flags.rm),
    )  # fmt: skip


def _cdi_names(variables: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the variables, and CDI devices of NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=0.

    The variable may name them where NVIDIA's runtime was chosen: its mode "auto" is "cdi" then.
    """
    value = environment_of(variables).get(request.VISIBLE, "")
    if "=" not in value:
        return variables, ()
    kept = (text for text in variables if not text.startswith(f"{request.VISIBLE}="))
    return tuple(kept), tuple(value.split(","))


def _exposed(texts: list[str]) -> list[str]:
    """Return the ports of --expose, each by itself. Raises UsageError."""
    found: list[str] = []
    for text in texts:
        ports = exposed(text)
        if ports is None:
            raise UsageError(f"invalid --expose {text!r}", "a port from 1 to 65535, as 80/tcp")
        found += ports
    return found


def log_settings(flags: RunFlags, settings: Settings) -> Settings:
    """Return the settings; `run`'s own --log and --log-format replace those before the command.

    Raises UsageError.
    """
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


def _check_signal(signal: str, flags: ConfigFlags) -> None:
    """Raise UsageError if `stop` could not send this signal, of the flag or of the image."""
    try:
        words.signal_number(signal)
    except UsageError:
        source = "a signal" if flags.stop_signal else "the image's own; --stop-signal TERM"
        text = f"invalid stop signal {signal[:40]!r}"
        raise UsageError(text, f"{source}, as TERM or 15") from None
