"""The functions of the rings around the core that it calls by name, without importing them itself.

What only some containers need is in minirun.core.extras.
"""

from __future__ import annotations

from minirun.core.lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FUNCTIONS = {
    "check_config": "minirun.oci.validate.check",
    "open_cgroup": "minirun.cgroups.open_for",
    "make_cgroup": "minirun.cgroups.make",
    "clear_cgroup": "minirun.cgroups.stopping.clear",
    "unmount_root": "minirun.oci.mounts.host_namespace.unmount",
    "kill_cgroup": "minirun.cgroups.stopping.kill",
    "cgroup_entrance": "minirun.cgroups.entrance.Entrance",
    "empty_directory": "minirun.oci.namespaces.userns.empty_directory",
    "leave_networks": "minirun.net.attach.leave",
    "unmount_shared_memory": "minirun.running.shared_memory.unmount",
    "drop_volumes": "minirun.running.volumes.drop",
    "keep_log": "minirun.running.kept_logs.keep",
    "gpu_arguments": "minirun.gpu.nvidia.hook.in_line",
    "gpu_holders": "minirun.engines.holders.holders",
}
"""Name → path."""


def function(name: str) -> Any:
    """Return the function that has this name in FUNCTIONS; its module is imported now."""
    return imported(FUNCTIONS[name])


def imported(path: str) -> Any:
    """Return what a path such as minirun.cgroups.make names; its module is imported now."""
    module, _, name = path.rpartition(".")
    return getattr(lazy.load(module), name)
