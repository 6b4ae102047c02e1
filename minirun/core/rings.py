"""The functions of the rings around the core that it calls for each container.

Each one loads the module that its body names, at the first call: the core imports no ring itself.
(The cgroup is opened by container.)
What only some containers need is in minirun.core.extras.
"""

from __future__ import annotations

from minirun.core.lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.cgroup import OwnCgroup
    from minirun.core.config import Config
    from minirun.core.container import Container
    from minirun.core.keeping.settings import Settings


def check_config(raw: Any) -> dict[str, Any]:
    """Return the document of a config.json, checked, and without nulls. Raises ConfigError."""
    checked: dict[str, Any] = imported("minirun.oci.validate.check")(raw)
    return checked


def make_cgroup(container: Container) -> None:
    """Make the container's cgroup, with limits and device rules. Raises MinirunError, OSError."""
    imported("minirun.cgroups.make")(container)


def clear_cgroup(cgroup: OwnCgroup, seconds: float) -> None:
    """Kill what is in a cgroup, and remove it. Raises StateError after `seconds`, OSError."""
    imported("minirun.cgroups.stopping.clear")(cgroup, seconds)


def cgroup_entrance(pid: int) -> Any:
    """Return the way into the cgroups of a process: minirun.cgroups.entrance. Raises OSError."""
    return imported("minirun.cgroups.entrance.Entrance")(pid)


def gpu_arguments(config: Config, state: dict[str, Any]) -> list[str] | None:
    """Return the arguments for nvidia-container-cli; None if no GPU is asked for.

    Raises GPUError, ConfigError.
    """
    argv: list[str] | None = imported("minirun.gpu.nvidia.hook.in_line")(config, state)
    return argv


def gpu_holders(settings: Settings, but: str = "") -> list[Any]:
    """Return which GPUs running containers have, but the one in the directory `but`.

    The rows are minirun.gpu.share's. Raises GPUError, OSError.
    """
    rows: list[Any] = imported("minirun.engines.holders.holders")(settings, but)
    return rows


def empty_directory(container: Container, fd: int) -> None:
    """Remove the files of ids that only the container's user namespace knows.

    Raises MinirunError, OSError.
    """
    imported("minirun.oci.namespaces.userns.empty_directory")(container, fd)


def keep_log(root: str, container_id: str) -> None:
    """Keep the log of a container whose directory is about to go."""
    imported("minirun.running.kept_logs.keep")(root, container_id)


def imported(path: str) -> Any:
    """Return what a path such as minirun.cgroups.make names; its module is imported now."""
    module, _, name = path.rpartition(".")
    return getattr(lazy.load(module), name)
