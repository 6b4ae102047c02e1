"""Stage 1, init's half: device nodes, FIFOs and links of a container's /dev.

What the spec says: runtime-spec, config-linux.md, "Devices" and "Default Devices": what config.json
lists must be there, at any path; if another file is there already, that is an error. The default
devices are in every container: without a mount at /dev they are made in the root filesystem itself,
and stay there, as with runc and crun.
"""

from __future__ import annotations

import os
import stat
from itertools import chain

from minirun.core.config import Config
from minirun.core.errors import ConfigError
from minirun.core.keeping.record import Record
from minirun.core.rootfs import operations
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.mount_entry import is_at_dev, is_bind
from minirun.core.rootfs.own_root import OwnRoot, has

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.rootfs import Plan

DEVICES = (
    ("/dev/null", 1, 3), ("/dev/zero", 1, 5), ("/dev/full", 1, 7), ("/dev/random", 1, 8),
    ("/dev/urandom", 1, 9), ("/dev/tty", 5, 0),
)  # fmt: skip
LINKS = (
    ("/proc/self/fd", "/dev/fd"), ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"), ("/proc/self/fd/2", "/dev/stderr"),
    ("pts/ptmx", "/dev/ptmx"),
)  # fmt: skip
"""Devices and links that every container has: runtime-spec, config-linux.md, "Default Devices"."""


def plan(config: Config) -> Plan:
    """Return how to make linux.devices, the default devices and the links.

    None of them if the host's /dev is bound there, or they would be made on the host.
    """
    rows = config.raw.get("mounts") or ()
    if any(is_bind(row) for row in rows if is_at_dev(row)):
        return ()
    default = [operations.MakeNode(path, "c", *ids) for path, *ids in DEVICES]
    nodes = [*default, *(_node(row) for row in config.linux.get("devices") or ())]
    in_user_namespace, by_path = "user" in config.namespaces, {n.path: n for n in nodes}
    by_path.pop("/dev/ptmx", None)  # of a privileged container; the link is the right one
    devices = [MakeOrBindNode(node, in_user_namespace) for node in by_path.values()]
    links = [operations.Symlink(target, path) for target, path in LINKS]
    if not any(map(is_bind, rows)):
        return (*devices, *links)
    roots: list[OwnRoot] = []
    return (
        *(Guarded(device, roots) for device in devices),
        *(Guarded(link, roots) for link in links),
    )


def _node(row: dict[str, Any]) -> operations.MakeNode:
    kind = "c" if row["type"] == "u" else row["type"]
    mode = row.get("fileMode")
    return operations.MakeNode(
        row["path"].rstrip("/"), kind, row.get("major", 0), row.get("minor", 0),
        0o666 if mode is None else stat.S_IMODE(mode), row.get("uid") or 0, row.get("gid") or 0,
    )  # fmt: skip


class MakeOrBindNode(Record):
    """Make a node; in a user namespace, which denies mknod, bind the host's own."""

    node: operations.MakeNode
    in_user_namespace: bool

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return self.node.describe()

    def execute(self, root: Root) -> None:
        """Make the node, or bind the host's. Raises ConfigError, OSError."""
        if self.in_user_namespace and self.node.kind != "p":
            _bind(root, self.node)
            return
        try:
            self.node.execute(root)
        except FileExistsError:
            _check_same(root, self.node)
        except PermissionError:
            if self.node.kind == "p":
                raise
            _bind(root, self.node)  # no CAP_MKNOD: root of a user namespace of an engine, say


class Guarded(Record):
    """A node or a link that is not made in a folder of the host, which a link may lead to."""

    operation: MakeOrBindNode | operations.Symlink
    roots: list[OwnRoot]
    """The container's root, once for all: filled by the first one, when all is mounted."""

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return self.operation.describe()

    def execute(self, root: Root) -> None:
        """Make it; in a folder of the host that is an error. Raises MinirunError, OSError."""
        if not self.roots:
            self.roots.append(OwnRoot(root.fd))
        operation = self.operation
        path = operation.node.path if isinstance(operation, MakeOrBindNode) else operation.path
        is_there = has(root, path, os.O_PATH | os.O_NOFOLLOW)
        operation.execute(root if is_there else self.roots[0])


def _bind(root: Root, node: operations.MakeNode) -> None:
    """Bind the host's own node. Raises ConfigError if it has none, OSError."""
    source = _find(node)
    if not source:
        number = f"{node.kind} {node.major}:{node.minor}"
        text = f"{node.path}: {number} cannot be made in a user namespace, and the host has none"
        raise ConfigError(f"config.json: linux.devices: {text} to bind", "mknod on the host")
    operations.Bind(source, node.path, recursive=False).execute(root)


def _find(node: operations.MakeNode) -> str:
    """Return the path of such a node on the host: the same path, else below /dev; "" for none."""
    wanted = operations.KINDS[node.kind], os.makedev(node.major, node.minor)
    for folder, _, names in chain([("", [], [node.path])], os.walk("/dev")):
        for name in names:
            path = f"{folder}/{name}" if folder else name
            try:
                info = os.lstat(path)
            except OSError:
                continue
            if (stat.S_IFMT(info.st_mode), info.st_rdev) == wanted:
                return path
    return ""


def _check_same(root: Root, node: operations.MakeNode) -> None:
    """Raise ConfigError unless the file that is there is the device that config.json lists."""
    fd = root.open(node.path, os.O_PATH | os.O_NOFOLLOW)
    info = os.fstat(fd)
    os.close(fd)
    same_kind = stat.S_IFMT(info.st_mode) == operations.KINDS[node.kind]
    if not same_kind or (node.kind != "p" and info.st_rdev != os.makedev(node.major, node.minor)):
        what = f"{node.kind} {node.major}:{node.minor}" if node.kind != "p" else "a FIFO"
        text = f"{node.path} is there already, and is not {what}"
        is_default = any(path == node.path for path, *_ in DEVICES)
        hint = "mount a tmpfs at /dev, where minirun makes it" if is_default else ""
        raise ConfigError(f"config.json: linux.devices: {text}", hint)
