"""Stage 5: Edits → the container, whichever vendor planned them: all of their steps, or none.

The half-started container is a mount namespace in which everything is mounted, and in which the
host's tree can still be seen: sources are paths of the host, destinations are resolved below a
descriptor of the container's root, and no path of the image is ever a source (CVE-2024-0132,
CVE-2025-23359; minirun.gpu.nvidia.cli.compat says what stands in for one). nvidia-container-cli
does the same work in the same order, ldconfig last. Where it allows each device in the cgroup as it
goes, minirun allows all of them at the end in one call, which on cgroup2 is one eBPF program.
"""

import os

from minirun.core.kernel import namespaces
from minirun.core.record import Record
from minirun.core.rootfs.inroot import Root
from minirun.gpu.nvidia.cli import ldconfig
from minirun.gpu.steps import Place
from minirun.gpu.undo import Before, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.cgroups import Cgroup
    from minirun.cgroups.foreign import DeviceCgroup
    from minirun.gpu.edits import Edits
    from minirun.gpu.steps import Step


class Target(Record):
    """The container, seen from its mount namespace, in which the caller is."""

    root: Root
    rootfs: str
    """The root's path there."""
    ldconfig: int = -1
    """The host's program, opened outside; -1 for none."""
    owner: "tuple[int, int]" = (0, 0)
    """User and group of the container's root: ldconfig writes as these (minirun.gpu.owner)."""
    join: "Callable[[], None] | None" = None
    """Moves its caller into the container's cgroups."""
    cgroup: "Cgroup | DeviceCgroup | None" = None
    """Where the device rules go; None leaves them alone."""


def apply(
    edits: "Edits", target: Target, tell: "Callable[[Step | str], None]" = lambda _: None
) -> None:
    """Put `edits` into the container; `tell` is called with each step before it is done.

    Raises GPUError, OSError; the container is as it was before then (minirun.gpu.undo).
    """
    paths = [step.path for step in edits.steps]
    before = Before(target.root, target.rootfs, paths, edits.library_folders)
    mask = os.umask(0)
    try:
        place = Place(target.root, edits.driver_root, target.owner != (0, 0))
        for step in edits.steps:
            tell(step)
            _execute(step, place)
        if target.ldconfig >= 0:
            tell(edits.ldconfig)
            ldconfig.run(target, edits.ldconfig, edits.library_folders)
        if target.cgroup is not None:
            target.cgroup.allow_devices(edits.device_rules())
    except BaseException:
        before.restore()
        raise
    finally:
        os.umask(mask)


def _execute(step: "Step", place: Place) -> None:
    try:
        step.execute(place)
    except FileNotFoundError:  # a link to nothing: made where it points to, inside the root
        path, _ = resolve(place.root, step.path, {})
        if path == step.path:
            raise
        step._replace(path=path).execute(place)


def enter(pid: int) -> None:
    """Move into the mount namespace of `pid`. Raises OSError."""
    why = "the container's mounts, before pivot_root: both trees can be seen"
    namespaces.enter(f"/proc/{pid}/ns/mnt", namespaces.CLONE_NEWNS, why=why)
