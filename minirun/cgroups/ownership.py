"""Version 2: the container's cgroup becomes its user's own, who makes others below it.

runtime-spec, config-linux.md, "Cgroup ownership": in a cgroup namespace of its own, with a mount of
its cgroups that it may write to. So systemd or docker runs in a container whose root is no root
outside. Of version 1 a container may never have any: a hierarchy is not safe to delegate.
"""

import os

from minirun.cgroups.base import Cgroup
from minirun.core.kernel import logged_python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.config import Config

_DELEGATE = "/sys/kernel/cgroup/delegate"
"""The files that go with a cgroup's directory: cgroups(7)."""
_USUAL = ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads")


def give(cgroup: Cgroup, config: "Config") -> None:
    """Make process.user, as it is called on the host, the owner of a cgroup. Raises OSError."""
    uid = _on_the_host(config, (config.process.get("user") or {}).get("uid", 0))
    if uid is None or cgroup.version != 2:
        return
    try:
        with open(_DELEGATE) as file:
            names = file.read().split()
    except FileNotFoundError:
        names = list(_USUAL)
    directory, shown = cgroup.clone_fd(), {"path": cgroup.path, "uid": uid}
    why = "the container's user makes cgroups of its own below it"
    logged_python("chown", lambda: os.chown(directory, uid, -1), shown, cgroup.path, why)
    for name in names:
        try:
            os.chown(name, uid, -1, dir_fd=directory)
        except FileNotFoundError:
            pass  # of a controller that is not handed down to it


def _on_the_host(config: "Config", uid: int) -> "int | None":
    """Return a user's number outside the container's user namespace; None if it has none there."""
    if "user" not in config.namespaces:
        return uid
    for row in config.linux.get("uidMappings") or ():
        if 0 <= uid - row["containerID"] < row["size"]:
            return int(row["hostID"] + uid - row["containerID"])
    return None
