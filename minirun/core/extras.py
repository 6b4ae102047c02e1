"""One table: how the core uses the rings around it without importing them itself.

A row has a property of config.json, the class (or function) of a ring that handles it, and the
points at which the stages call it. Before clone, the class of each property that this
config.json has is imported: after pivot_root every file is the container's, and nothing may be
imported any more. The class, called with the container, checks the property and returns an
:class:`minirun.core.container.Extra`, whose methods the stages call at their points.

A property is a path of names: linux.seccomp, or linux.namespaces.type=user, which a config.json has
if one member of the list linux.namespaces has this type. A name that begins with -- is a flag of
the caller, such as --no-pivot; --host-mounts stands for a config.json without a mount namespace,
--named for a container with a name besides its id.
One below `record` is a field of state.json that the core carries along: ContainerRecord.rest.
"""

from __future__ import annotations

import os

from minirun.core import rings
from minirun.core.container import Container, Extra
from minirun.core.keeping import places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HOST_MOUNTS = "minirun.oci.mounts.host_namespace"
_NAMED = ("minirun.oci.namespaces.helper.NamedNamespaces", ("clone",))
_SOURCES = (
    "minirun.oci.mounts.sources.MountSources",
    ("from_outside", "source", "before_mount", "after_mount"),
)
_LIMITS = ("minirun.oci.tuning.limits.Limits", ("from_outside", "limit"))
_TUNING = ("minirun.oci.tuning.tuning.Tuning", ("limit",))

TABLE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("--host-mounts", f"{_HOST_MOUNTS}.HostNamespace",
     ("clone", "isolate", "change_root", "ended")),
    ("linux.namespaces.path", *_NAMED), ("linux.namespaces.type=time", *_NAMED),
    ("linux.namespaces.type=user", "minirun.oci.namespaces.userns.IdMaps",
     ("from_outside", "inside")),
    ("linux.namespaces.type=network", "minirun.net.Loopback", ("inside",)),
    ("record.network", "minirun.net.attach.Networks", ("from_outside", "ended")),
    ("linux.netDevices", "minirun.net.devices.NetDevices", ("from_outside",)),
    ("linux.rootfsPropagation", "minirun.oci.mounts.propagation.Propagation",
     ("isolate", "after_hiding")),
    ("linux.namespaces.type=user", *_SOURCES), ("mounts.uidMappings", *_SOURCES),
    ("mounts.options=idmap", *_SOURCES), ("mounts.options=ridmap", *_SOURCES),
    ("mounts.options=tmpcopyup", *_SOURCES),
    ("--no-pivot", "minirun.oci.mounts.no_pivot.NoPivot", ("change_root",)),
    ("linux.sysctl", "minirun.oci.tuning.sysctl.Sysctl", ("after_pivot",)),
    ("process.args", "minirun.oci.home.Home", ("variables",)),
    ("process.terminal", "minirun.oci.terminal.terminal.Terminal", ("connect", "lead_session")),
    ("linux.seccomp", "minirun.oci.seccomp.compiled",
     ("from_outside", "before_pivot", "receive", "before_user", "after_user", "before_exec")),
    ("process.rlimits", *_LIMITS), ("process.oomScoreAdj", *_LIMITS),
    ("process.scheduler", *_TUNING), ("process.ioPriority", *_TUNING),
    ("process.apparmorProfile", *_TUNING), ("process.selinuxLabel", *_TUNING),
    ("linux.personality", *_TUNING), ("linux.memoryPolicy", *_TUNING),
    ("linux.mountLabel", *_TUNING), ("linux.intelRdt", *_TUNING),
    ("--rootless", "minirun.oci.exec.created.NamespaceSender",
     ("from_outside", "before_pivot", "after_pivot", "while_waiting")),
    ("record.restart", "minirun.running.ends.Restarted", ("ending",)),
    ("record.shared_memory", "minirun.running.shared_memory.SharedMemory", ("ended",)),
    ("record.mounts", "minirun.running.volumes.AnonymousVolumes", ("removed",)),
    ("--named", "minirun.common.naming.Named", ("gone",)),
)  # fmt: skip


POINTS = frozenset(name for name in vars(Extra) if not name.startswith("_"))
END = frozenset(("ending", "ended", "removed", "gone"))
"""The points of a container's end; all others are those of its start."""


def prepare(container: Container, points: frozenset[str] = POINTS - END) -> None:
    """Give a container what it needs beyond the core at `points`, by the name in the table.

    For a start that is before init is cloned from this process: after pivot_root nothing can be
    loaded any more. Raises ConfigError, MinirunError, OSError.
    """
    extras: dict[str, Extra] = {}
    flags = {
        "--host-mounts": "mount" not in container.config.namespaces,
        "--no-pivot": container.record.no_pivot,
        "--rootless": container.unprivileged,
        "--named": os.path.lexists(f"{container.directory}/{places.NAME}"),
        "record": container.record.rest,
    }
    asked = container.config.raw | flags
    for path, name, where in TABLE:
        wanted = name not in extras and not points.isdisjoint(where)
        if wanted and _has(asked, path.split(".")):
            extras[name] = rings.imported(name)(container)
    container.extras = extras


def _has(value: Any, names: list[str]) -> bool:
    """Return True if the property `names` is below `value`, and is neither empty nor false."""
    if isinstance(value, list):
        return any(_has(member, names) for member in value)
    if not names:
        return value is not None and value is not False and value != ""
    if not isinstance(value, dict):
        return False
    name, _, word = names[0].partition("=")
    found = value.get(name)
    if word:
        return found == word or (isinstance(found, list) and word in found)
    return _has(found, names[1:])
