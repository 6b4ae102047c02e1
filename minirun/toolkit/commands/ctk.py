"""`minirun nvidia-ctk`, NVIDIA's tool for administrators, and `nvidia-cdi-hook`.

The hook does what a CDI spec has done in a container that config.json cannot say.

A program of its own, as NVIDIA's nvidia-cdi-hook is, and with its arguments, so that a spec can
name either. Engines run it as createContainer hook, with the container's state on stdin:
minirun.gpu.nvidia.specs.hooks.
"""

from __future__ import annotations

import sys

from minirun import __version__
from minirun.cli import part
from minirun.cli.flags import Flags, flag
from minirun.cli.output import write
from minirun.core.config import Config
from minirun.core.errors import MinirunError, UsageError
from minirun.core.keeping import jsonlite, places, state
from minirun.core.keeping.settings import Settings
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.own_root import OwnRoot
from minirun.gpu.nvidia.shared.log import ToolkitLog
from minirun.gpu.nvidia.specs import hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class CtkFlags(Flags):
    """The flags of one of its commands, which take no argument."""

    mixed, wrong = False, 1

    def __init__(self, argv: list[str]) -> None:
        """Read flags only. Raises UsageError, with exit status 1."""
        super().__init__(argv)
        if self.args:
            raise UsageError(f"{self.command}: unexpected argument {self.args[0]!r}", status=1)


class GlobalCtkFlags(Flags):
    """What both programs know before the name of a command."""

    wrong = 1
    debug: bool = flag("-d")
    quiet: bool
    version: bool = flag("-v")

    @property
    def level(self) -> str:
        """Return the lowest level of the log that is printed."""
        return "error" if self.quiet else "debug" if self.debug else "info"


class CdiHookFlags(GlobalCtkFlags):
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


class Ctk(GlobalCtkFlags):
    """NVIDIA's tool for administrators."""

    command, mixed = "nvidia-ctk", False


PARTS = {
    "cdi": "minirun.toolkit.commands.cdi",
    "config": "minirun.toolkit.commands.ctk_config",
    "runtime": "minirun.toolkit.commands.ctk_runtime",
    "system": "minirun.toolkit.commands.ctk_system",
}
"""Command of nvidia-ctk → its module."""


def main_nvidia_ctk(args: list[str], settings: Settings) -> int:
    """Run one of its commands."""
    flags = Ctk(args)
    if flags.version:
        return write(f"NVIDIA Container Toolkit CLI version {__version__} (minirun)\n")
    if not flags.args:
        flags.refuse()
    name, rest = flags.args[0], flags.args[1:]
    if name == "hook":
        return main_nvidia_cdi_hook(rest, settings)
    if name not in PARTS:
        raise unknown(flags.args[:2])
    entry: Callable[[list[str], ToolkitLog, Settings], int]
    entry = part(PARTS[name], "main")  # hooks need nothing of them
    return entry(rest, ToolkitLog(flags.level), settings)


def unknown(words: list[str]) -> UsageError:
    """Return the error about a command of nvidia-ctk that there is not."""
    hint = "see 'minirun nvidia-ctk --help'"
    return UsageError(f"unknown command 'nvidia-ctk {' '.join(words)}'", hint, status=1)


def _create_symlinks(root: OwnRoot, flags: CdiHookFlags) -> None:
    for target, path in [split(text) for text in flags.link]:
        hooks.make_link(root, target, path)


def _update_ldcache(root: OwnRoot, flags: CdiHookFlags) -> None:
    hooks.update_cache(root, tuple(dict.fromkeys(flags.folder)), flags.ldconfig_path)


def _enable_cuda_compat(root: OwnRoot, flags: CdiHookFlags) -> None:
    if flags.host_driver_version:
        hooks.enable_compat(root, flags.host_driver_version, flags.cuda_compat_container_root)


def _chmod(root: OwnRoot, flags: CdiHookFlags) -> None:
    hooks.chmod(root, tuple(flags.path), _mode(flags.mode))


_HOOKS: dict[str, Callable[[OwnRoot, CdiHookFlags], None]] = {
    "create-symlinks": _create_symlinks,
    "update-ldcache": _update_ldcache,
    "enable-cuda-compat": _enable_cuda_compat,
    "disable-device-node-modification": lambda root, _: hooks.pin_device_nodes(root),
    "update-application-profile": lambda root, _: hooks.update_profile(root),
    "chmod": _chmod,
    "noop": lambda root, _: None,
    "show-simulated-driver": lambda root, flags: hooks.show_driver(root, flags.source),
}


def main_nvidia_cdi_hook(args: list[str], settings: Settings) -> int:
    """Run one hook; one that it does not know is no error. Raises MinirunError, OSError.

    A spec may be made by a newer or older toolkit than the one that runs its hooks: as the real
    program does, this lets the container start without such a hook.
    """
    name = next((word for word in args if not word.startswith("-")), "")
    if name not in _HOOKS and not {"--help", "-h", "--version", "-v"} & set(args):
        text = f"Unsupported CDI hook: {name}" if name else "No CDI hook specified"
        ToolkitLog("error" if "--quiet" in args else "info").warning(text)
        return 0
    flags = CdiHookFlags(args)
    if flags.version:
        return write(f"NVIDIA CDI Hook CLI version {__version__} (minirun)\n")
    if name == "noop":
        return 0
    for text in flags.link:
        split(text)
    if name == "chmod":
        _mode(flags.mode)
    path = rootfs(flags.container_spec)
    ToolkitLog(flags.level).debug(f"Running CDI hook {name} in {path}")
    root = OwnRoot(Root.at(path).fd)
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


def split(text: str) -> tuple[str, str]:
    """Split TARGET::LINK. Raises UsageError."""
    target, colons, link = text.partition("::")
    if not (target and colons and link):
        hint = "as in --link libcuda.so.1::/usr/lib64/libcuda.so"
        raise UsageError(f"nvidia-cdi-hook: invalid link {text!r}", hint, 1)
    return target, link
