"""linux.sysctl: parameters of the kernel that each namespace has for itself: sysctl(8), proc(5).

Written once the container's root is the root, and before /proc/sys becomes read-only.
"""

import os

from minirun.core.config import Config
from minirun.core.errors import ConfigError, MinirunError
from minirun.core.extras import Extra
from minirun.core.kernel import files
from minirun.core.rootfs.inroot import Root

NAMESPACED = (
    ("net.", "network"), ("kernel.msg", "ipc"), ("kernel.sem", "ipc"), ("kernel.shm", "ipc"),
    ("fs.mqueue.", "ipc"), ("kernel.domainname", "uts"),
)  # fmt: skip
"""Which sysctls belong to a namespace; every other one is the host's (CVE-2022-0811)."""


class Sysctl(Extra):
    """The parameters of one container."""

    def after_pivot(self) -> None:
        """Write them. Raises ConfigError, MinirunError."""
        root = Root.at("/")
        for key, value in self.config.linux["sysctl"].items():
            write_sysctl(self.config, root, key, value)
        root.close()


def write_sysctl(config: Config, root: Root, key: str, value: str) -> None:
    """Write one sysctl that belongs to a namespace of the container. Raises ConfigError.

    The path is looked up on a checked procfs, across no mount and no link (CVE-2025-52881).
    """
    where = f"config.json: linux.sysctl.{key}"
    parts = key.split("/") if "/" in key else key.split(".")
    if any(part in ("", ".", "..") for part in parts):
        raise ConfigError(f"{where}: is not the name of a sysctl")
    dotted = ".".join(parts)
    if dotted == "kernel.hostname":
        raise ConfigError(f"{where}: the name of the container is hostname's to say")
    kind = next((kind for prefix, kind in NAMESPACED if dotted.startswith(prefix)), None)
    if kind is None:
        raise ConfigError(f"{where}: is not separate per container")
    if not config.namespaces.get(kind, None) and not config.new_namespace(kind):
        raise ConfigError(f"{where}: needs a {kind} namespace of the container's own")
    proc = root.open("/proc", os.O_PATH | os.O_DIRECTORY)
    try:
        if files.filesystem_magic(proc) != files.PROC_SUPER_MAGIC:
            raise MinirunError("/proc in the container is not procfs")
        resolve = files.RESOLVE_BENEATH | files.RESOLVE_NO_XDEV | files.RESOLVE_NO_SYMLINKS
        fd = files.openat2(proc, "/".join(["sys", *parts]), os.O_WRONLY, resolve)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)
    except OSError as error:
        text = os.strerror(error.errno or 0).lower()
        raise ConfigError(f"{where}: cannot be set to {value!r}: {text}") from None
    finally:
        os.close(proc)
