"""`minirun nvidia-ctk`, NVIDIA's tool for administrators, and `nvidia-cdi-hook`.

The hook does what a CDI spec has done in a container that config.json cannot say.

A program of its own, as NVIDIA's nvidia-cdi-hook is, and with its arguments, so that a spec can
name either. Engines run it as createContainer hook, with the container's state on stdin:
minirun.gpu.nvidia.ctk.hooks.
"""

import os
import sys

from minirun.cli import entry_of
from minirun.cli.flags import Flags, flag
from minirun.core import jsonlite, places, state
from minirun.core.config import Config
from minirun.core.errors import MinirunError, UsageError
from minirun.core.rootfs.inroot import Root
from minirun.core.settings import Settings
from minirun.gpu.nvidia.ctk import devchar, hooks
from minirun.gpu.nvidia.runtime.log import ToolkitLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.gpu.nvidia.ctk.engines import EngineSetup


class CtkFlags(Flags):
    """The flags of one of its commands, which take no argument."""

    mixed = False

    def __init__(self, argv: "list[str]") -> None:
        """Read flags only. Raises UsageError, with exit status 1."""
        try:
            super().__init__(argv)
        except UsageError as error:
            error.status = 1
            raise
        if self.args:
            raise UsageError(f"{self.command}: unexpected argument {self.args[0]!r}", status=1)


class CdiHookFlags(Flags):
    """A hook of a CDI spec."""

    command = "nvidia-cdi-hook"
    link: list[str]
    folder: list[str]
    ldconfig_path: str = flag(default="/sbin/ldconfig")
    host_driver_version: str
    host_cuda_version: str
    cuda_compat_container_root: str = flag(default="/usr/local/cuda/compat")
    path: list[str]
    mode: str
    source: str
    container_spec: str


class Ctk(Flags):
    """NVIDIA's tool for administrators."""

    command, mixed = "nvidia-ctk", False


class Configure(CtkFlags):
    """Add a runtime to an engine's configuration."""

    command = "nvidia-ctk runtime configure"
    runtime: str = flag(default="docker")
    config: str
    drop_in_config: str
    nvidia_runtime_name: str = flag(default="nvidia")
    nvidia_runtime_path: str = flag("--runtime-path")
    nvidia_set_as_default: bool = flag("--set-as-default")
    cdi__enabled: bool = flag("--cdi.enable", "--enable-cdi")
    dry_run: bool


class Symlinks(CtkFlags):
    """Link /dev/char/MAJOR:MINOR to the nodes."""

    command = "nvidia-ctk system create-dev-char-symlinks"
    create_all: bool
    driver_root: str = flag(default="/")
    dev_char_path: str = flag(default="/dev/char")
    dry_run: bool


def main_nvidia_ctk(args: "list[str]", settings: Settings) -> int:
    """Run one of its commands."""
    flags = Ctk(args)
    if not flags.args:
        flags.refuse()
    name, rest = flags.args[0], flags.args[1:]
    if name == "hook":
        return main_nvidia_cdi_hook(rest, settings)
    if name == "cdi":
        return entry_of(name, {name: "cli.cdi"})(rest, settings)  # hooks need nothing of it
    commands = {"runtime configure": _configure, "system create-dev-char-symlinks": _symlinks}
    command = commands.get(" ".join(flags.args[:2]))
    if command is None:
        hint = "see 'minirun nvidia-ctk --help'"
        raise UsageError(f"unknown command 'nvidia-ctk {' '.join(flags.args[:2])}'", hint, status=1)
    return command(rest[1:])


def _configure(args: "list[str]") -> int:
    flags = Configure(args)
    from minirun.gpu.nvidia.ctk import engines  # tomlkit: 30 ms, for this command

    log = ToolkitLog("info")
    setup = _engine_setup(flags, log)
    for file in engines.configure(setup, log):
        if flags.dry_run:
            if file.title:
                log.info(file.title)
            sys.stdout.write(file.text)
            sys.stdout.flush()
        else:
            engines.save(file)
            log.info(f"Wrote updated config to {file.path}")
    if not flags.dry_run:
        log.info(f"It is recommended that {setup.engine} daemon be restarted.")
    return 0


def _engine_setup(flags: Configure, log: ToolkitLog) -> "EngineSetup":
    """Return what the flags ask for, checked as the real tool checks it. Raises UsageError."""
    from minirun.gpu.nvidia.ctk import engines

    engine = engines.ENGINES.get(flags.runtime)
    if engine is None:
        raise UsageError(f"unrecognized runtime '{flags.runtime}'", ", ".join(engines.ENGINES), 1)
    path = flags.nvidia_runtime_path or "nvidia-container-runtime"
    if path == "nvidia-container-runtime":
        path = engine.runtime
    if flags.runtime != "docker" and not path.startswith("/"):
        raise UsageError(f'the NVIDIA runtime path "{path}" is not an absolute path', status=1)
    drop_in = flags.drop_in_config if "drop_in_config" in flags.given else engine.drop_in
    if drop_in and flags.runtime == "docker":
        raise UsageError("runtime docker does not support drop-in configs", status=1)
    if drop_in and not drop_in.startswith("/"):
        raise UsageError(f'the drop-in-config path "{drop_in}" is not an absolute path', status=1)
    if flags.cdi__enabled and flags.runtime == "crio":
        log.warning("Ignoring cdi.enabled flag for crio")
    return engines.EngineSetup(
        engine=flags.runtime,
        config=os.path.abspath(flags.config or engine.config),
        drop_in=drop_in,
        name=flags.nvidia_runtime_name,
        path=path,
        default=flags.nvidia_set_as_default,
        cdi=flags.cdi__enabled,
    )


def _symlinks(args: "list[str]") -> int:
    flags = Symlinks(args)
    root = flags.driver_root.rstrip("/")
    nodes = devchar.possible_nodes(root) if flags.create_all else devchar.existing_nodes(root)
    devchar.link(nodes, flags.dev_char_path, ToolkitLog("info"), dry_run=flags.dry_run)
    return 0


def _create_symlinks(root: Root, flags: CdiHookFlags) -> None:
    for target, path in [split(text) for text in flags.link]:
        hooks.make_link(root, target, path)


def _update_ldcache(root: Root, flags: CdiHookFlags) -> None:
    hooks.update_cache(root, tuple(dict.fromkeys(flags.folder)), flags.ldconfig_path)


def _enable_cuda_compat(root: Root, flags: CdiHookFlags) -> None:
    if flags.host_driver_version:
        hooks.enable_compat(root, flags.host_driver_version, flags.cuda_compat_container_root)


def _chmod(root: Root, flags: CdiHookFlags) -> None:
    hooks.chmod(root, tuple(flags.path), _mode(flags.mode))


_HOOKS: "dict[str, Callable[[Root, CdiHookFlags], None]]" = {
    "create-symlinks": _create_symlinks,
    "update-ldcache": _update_ldcache,
    "enable-cuda-compat": _enable_cuda_compat,
    "disable-device-node-modification": lambda root, _: hooks.pin_device_nodes(root),
    "update-application-profile": lambda root, _: hooks.update_profile(root),
    "chmod": _chmod,
    "show-simulated-driver": lambda root, flags: hooks.show_driver(root, flags.source),
}


def main_nvidia_cdi_hook(args: "list[str]", settings: Settings) -> int:
    """Run one hook. Raises MinirunError, OSError."""
    flags = CdiHookFlags(args)
    if not flags.args:
        flags.refuse()
    name = flags.args[0]
    if name not in _HOOKS:
        raise UsageError(f"unknown hook 'nvidia-cdi-hook {name}'", ", ".join(_HOOKS), 1)
    for text in flags.link:
        split(text)
    if name == "chmod":
        _mode(flags.mode)
    root = Root.at(rootfs(flags.container_spec))
    try:
        _HOOKS[name](root, flags)
    finally:
        root.close()
    return 0


def _mode(text: str) -> int:
    """Return an octal mode. Raises UsageError."""
    try:
        return int(text, 8)
    except ValueError:
        raise UsageError(f"nvidia-cdi-hook: invalid mode {text!r}", "octal, as in 755", 1) from None


def rootfs(path: str) -> str:
    """Return the container's root filesystem, by its state on stdin or in the file `path`.

    Raises MinirunError where that is no state, OSError.
    """
    text = state.read_text(path) if path else sys.stdin.read()
    try:
        bundle: str = jsonlite.loads(text)["bundle"]
        return Config(jsonlite.loads(state.read_text(f"{bundle}/{places.CONFIG}")), bundle).rootfs
    except (ValueError, KeyError, TypeError) as error:
        what = f"no container's state on {path or 'standard input'}: {error}"
        hint = "a runtime calls this, as createContainer hook"
        raise MinirunError(f"nvidia-cdi-hook: {what}", hint, 1) from None


def split(text: str) -> "tuple[str, str]":
    """Split TARGET::LINK. Raises UsageError."""
    target, colons, link = text.partition("::")
    if not (target and colons and link):
        hint = "as in --link libcuda.so.1::/usr/lib64/libcuda.so"
        raise UsageError(f"nvidia-cdi-hook: invalid link {text!r}", hint, 1)
    return target, link
