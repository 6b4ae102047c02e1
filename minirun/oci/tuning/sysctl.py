"""linux.sysctl: parameters of the kernel that each namespace has for itself: sysctl(8), proc(5).

Written once the container's root is the root, and before /proc/sys becomes read-only. The host's
own namespace does not count, named by path or not: docker --network host names it so, and leaves it
to the runtime to refuse net.* there, as runc does (libcontainer/configs/validate).
"""

import os

from minirun.common import docker_record
from minirun.core import events
from minirun.core.config import Config
from minirun.core.container import Container, Extra
from minirun.core.errors import ConfigError, MinirunError, reason
from minirun.core.kernel import files, namespaces
from minirun.core.rootfs.inroot import Root

NAMESPACED = (
    ("net.", "network"), ("kernel.msg", "ipc"), ("kernel.sem", "ipc"), ("kernel.shm", "ipc"),
    ("fs.mqueue.", "ipc"), ("kernel.domainname", "uts"), ("user.", "user"),
)  # fmt: skip
"""Which sysctls belong to a namespace; every other one is the host's (CVE-2022-0811)."""


class Sysctl(Extra):
    """The parameters of one container."""

    def __init__(self, container: Container) -> None:
        """Check that each belongs to a namespace of the container. Raises ConfigError."""
        super().__init__(container)
        self._paths = {key: _checked(self.config, key) for key in self.config.linux["sysctl"]}
        docker = docker_record.of(container.record)
        asked = {text.partition("=")[0] for text in docker.asked.get("sysctl", ())}
        self._defaults = self._paths.keys() - asked if docker.managed else set()

    def after_pivot(self) -> None:
        """Write them; one that no flag asks for may fail. Raises ConfigError, MinirunError."""
        root = Root.at("/")
        for key, path in self._paths.items():
            try:
                _write(root, key, path, self.config.linux["sysctl"][key])
            except ConfigError as error:  # such as that of LXC's profile of AppArmor
                if key not in self._defaults:
                    raise
                why = f"it is a mere default: {error}"
                events.emit("note", "sysctl not set", {"name": key}, why=why)
        root.close()


def _checked(config: Config, key: str) -> str:
    """Return a sysctl's path below /proc. Raises ConfigError if it is not the container's own."""
    where = f"config.json: linux.sysctl.{key}"
    parts = key.split("/") if "/" in key else key.split(".")
    if any(part in ("", ".", "..") for part in parts):
        raise ConfigError(f"{where}: is not the name of a sysctl")
    dotted = ".".join(parts)
    if dotted == "kernel.hostname":
        raise ConfigError(f"{where}: set `hostname` in config.json instead")
    kind = next((kind for prefix, kind in NAMESPACED if dotted.startswith(prefix)), None)
    if kind is None:
        raise ConfigError(f"{where}: is not separate per container")
    path = config.namespaces.get(kind)
    if not config.new_namespace(kind) and (not path or _is_the_hosts(kind, path)):
        raise ConfigError(f"{where}: needs a {kind} namespace of the container's own")
    return "/".join(["sys", *parts])


def _is_the_hosts(kind: str, path: str) -> bool:
    """Return True if a namespace is the runtime's own. One that is not there, clone refuses."""
    own = f"/proc/self/ns/{namespaces.PROC_NAMES.get(kind, kind)}"
    return os.path.exists(path) and os.path.samestat(os.stat(path), os.stat(own))


def _write(root: Root, key: str, path: str, value: str) -> None:
    """Write one. Raises ConfigError, MinirunError.

    The path is looked up on a checked procfs, across no mount and no link (CVE-2025-52881).
    """
    proc = root.open("/proc", os.O_PATH | os.O_DIRECTORY)
    try:
        if files.filesystem_magic(proc) != files.PROC_SUPER_MAGIC:
            raise MinirunError("/proc in the container is not procfs")
        resolve = files.RESOLVE_BENEATH | files.RESOLVE_NO_XDEV | files.RESOLVE_NO_SYMLINKS
        fd = files.openat2(proc, path, os.O_WRONLY, resolve)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)
    except OSError as error:
        text = reason(error)
        where = f"config.json: linux.sysctl.{key}"
        raise ConfigError(f"{where}: cannot be set to {value!r}: {text}") from None
    finally:
        os.close(proc)
