"""One table: how the core uses the rings around it without importing them itself.

A row has a property of config.json, the class (or function) of a ring that handles it, and the
points at which the stages call it. Before clone, the class of each property that this
config.json has is imported: after pivot_root every file is the container's, and nothing may be
imported any more. The class, called with the container, checks the property and returns an
:class:`Extra`, whose methods the stages call at their points.

A property is a path of names. Of a list, one member that has it is enough: with one namespace of
type user a config.json has linux.namespaces.type=user. A name that begins with -- is a flag of the
caller, or (--host-mounts) what :func:`load` sees that config.json lacks.
"""

from __future__ import annotations

from minirun.core.keeping.choices import OTHER_VENDORS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import select
    from collections.abc import Sequence
    from typing import Any

    from minirun.core.config import Config
    from minirun.core.container import Container
    from minirun.core.handshake import Channel
    from minirun.core.process.streams import Console
    from minirun.core.rootfs.inroot import Root
    from minirun.core.stages.s1_clone import Init

_HOST_MOUNTS = "minirun.oci.mounts.host_namespace"
_VENDORS = ("minirun.gpu.vendors.Groups", ("groups",))
_NAMED = ("minirun.oci.namespaces.helper.NamedNamespaces", ("clone",))
_SOURCES = ("minirun.oci.mounts.sources.MountSources", ("from_outside", "source", "copy_up"))
_LIMITS = ("minirun.oci.tuning.limits.Limits", ("from_outside", "limit"))
_TUNING = ("minirun.oci.tuning.tuning.Tuning", ("limit",))

TABLE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("--host-mounts", f"{_HOST_MOUNTS}.HostNamespace", ("clone", "isolate", "change_root")),
    ("linux.namespaces.path", *_NAMED), ("linux.namespaces.type=time", *_NAMED),
    ("linux.namespaces.type=user", "minirun.oci.namespaces.userns.IdMaps",
     ("from_outside", "inside")),
    ("linux.namespaces.type=network", "minirun.net.Loopback", ("inside",)),
    ("linux.netDevices", "minirun.net.devices.NetDevices", ("from_outside",)),
    ("linux.rootfsPropagation", "minirun.oci.mounts.propagation.Propagation",
     ("isolate", "after_hiding")),
    ("linux.namespaces.type=user", *_SOURCES), ("mounts.uidMappings", *_SOURCES),
    ("mounts.options=idmap", *_SOURCES), ("mounts.options=ridmap", *_SOURCES),
    ("mounts.options=tmpcopyup", *_SOURCES),
    ("--no-pivot", "minirun.oci.mounts.no_pivot.NoPivot", ("change_root",)),
    ("linux.sysctl", "minirun.oci.tuning.sysctl.Sysctl", ("after_pivot",)),
    ("process.args", "minirun.oci.home.Home", ("before_pivot",)),
    ("process.terminal", "minirun.oci.terminal.terminal.Terminal", ("connect", "lead_session")),
    ("linux.seccomp", "minirun.oci.seccomp.compiled",
     ("from_outside", "before_pivot", "receive", "before_user", "after_user", "before_exec")),
    ("process.rlimits", *_LIMITS), ("process.oomScoreAdj", *_LIMITS),
    ("process.scheduler", *_TUNING), ("process.ioPriority", *_TUNING),
    ("process.apparmorProfile", *_TUNING), ("process.selinuxLabel", *_TUNING),
    ("linux.personality", *_TUNING), ("linux.memoryPolicy", *_TUNING),
    ("linux.mountLabel", *_TUNING), ("linux.intelRdt", *_TUNING),
    ("--gpu-driver=amd", *_VENDORS), ("--gpu-driver=intel", *_VENDORS),
    ("--gpu-driver=gaudi", *_VENDORS),
    ("--rootless", "minirun.oci.exec.created.NamespaceSender",
     ("before_pivot", "after_pivot", "while_waiting")),
)  # fmt: skip


class Extra:
    """What one module does for one container. Each method is a point of the stages.

    A method that a module leaves out does nothing. Each may raise MinirunError, OSError.
    """

    def __init__(self, container: Container) -> None:
        self.container = container
        self.config = container.config

    def clone(self, flags: int) -> tuple[int, int] | None:
        """Stage 1, runtime, right before clone: or in place of it, and then return (pid, pidfd)."""
        return None

    def from_outside(self, init: Init) -> None:
        """Stage 1, runtime, after clone: do for init what it cannot do for itself."""

    def isolate(self) -> bool:
        """Stage 1, init: set which mounts spread to and from the host. Return True if it did."""
        return False

    def inside(self) -> None:
        """Stage 1, init: called when it is in its new namespaces, and root there."""

    def source(self, where: str) -> int | None:
        """Stage 1, init: return a detached mount for the entry `where` of `mounts`, or None."""
        return None

    def copy_up(self, root: Root, path: str, below: int, *, whole: bool) -> None:
        """Stage 1, init: copy the directory `below` into the mount that now covers it, at `path`.

        `whole`: its owner and mode, too.
        """

    def receive(self, channel: Channel, pid: int, pidfd: int, status: str) -> None:
        """Stage 7, runtime: take what process `pid` passes on while it becomes the command."""

    def before_pivot(self, root: Root) -> None:
        """After stage 2, init, while hooks run: read the image's files; / is the host's still."""

    def connect(self, root: Root, console: Console, *, console_node: bool) -> bool:
        """Stage 7, init: make the command's streams 0 to 2. Return True if it did."""
        return False

    def lead_session(self) -> None:
        """Stage 7, init: called when it leads a new session."""

    def change_root(self, root: Root) -> bool:
        """Stage 7, init: make `root` the root without pivot_root. Return True if it did."""
        return False

    def after_pivot(self) -> None:
        """Stage 7, init: called when the container's root is /, before anything in it is hidden."""

    def after_hiding(self) -> None:
        """Stage 7, init: called when all is hidden that the container may not see."""

    def limit(self) -> None:
        """Stage 7, init, still with all privileges: set what a process can set for itself alone."""

    def groups(self) -> Sequence[int]:
        """Stage 7, init: the groups that its user joins besides those of config.json."""
        return ()

    def before_user(self, channel: Channel) -> None:
        """Stage 7, init: called while it still has all privileges."""

    def after_user(self, channel: Channel) -> None:
        """Stage 7, init: called when it is the container's user, with its capabilities."""

    def while_waiting(self, poll: select.poll) -> None:
        """Stage 7, init, at exec.fifo: serve what has come, and let `poll` wake it for more."""

    def before_exec(self) -> None:
        """Stage 7, init: called right before execve."""


POINTS = frozenset(name for name in vars(Extra) if not name.startswith("_"))


def load(container: Container, points: frozenset[str] = POINTS) -> dict[str, Extra]:
    """Return what this container needs beyond the core at `points`, by the name in the table.

    Raises MinirunError, OSError.
    """
    extras: dict[str, Extra] = {}
    flags = {
        "--host-mounts": "mount" not in container.config.namespaces,
        "--no-pivot": container.record.get("no_pivot"),
        "--gpu-driver": container.config.choices.gpu_driver,
        "--rootless": container.unprivileged,
    }
    asked = container.config.raw | flags
    for path, name, where in TABLE:
        wanted = name not in extras and not points.isdisjoint(where)
        if wanted and _has(asked, path.split(".")):
            extras[name] = _imported(name)(container)
    return extras


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


FUNCTIONS = {
    "check_config": "minirun.oci.validate.check",
    "check_record": "minirun.running.record_fields.check",
    "open_cgroup": "minirun.cgroups.open_for",
    "make_cgroup": "minirun.cgroups.make",
    "clear_cgroup": "minirun.cgroups.stopping.clear",
    "unmount_root": f"{_HOST_MOUNTS}.unmount",
    "kill_cgroup": "minirun.cgroups.stopping.kill",
    "cgroup_entrance": "minirun.cgroups.entrance.Entrance",
    "empty_directory": "minirun.oci.namespaces.userns.empty_directory",
    "keep_log": "minirun.running.kept_logs.keep",
    "gpu_holders": "minirun.engines.holders.holders",
}
"""Functions of outer rings, called by name: name → path."""


def function(name: str) -> Any:
    """Return the function that has this name in FUNCTIONS; its module is imported now."""
    return _imported(FUNCTIONS[name])


def _imported(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(__import__(module, fromlist=[name]), name)


def gpu_vendor(config: Config) -> str:
    """Return the vendor, other than NVIDIA, whose GPUs this container gets; "" for none."""
    if config.choices.gpu_driver not in OTHER_VENDORS:
        return ""
    from minirun.gpu.asked import variables

    return variables.vendor(config)


def gpu_arguments(config: Config, state: dict[str, Any]) -> list[str] | None:
    """Stage 4: return what nvidia-container-cli is to be called with; None if no GPU is asked for.

    Raises GPUError, ConfigError.
    """
    if gpu_vendor(config):
        from minirun.gpu import vendors

        return vendors.command_line(config, state["pid"])
    from minirun.gpu.nvidia import hook

    return hook.in_line(config, state)
