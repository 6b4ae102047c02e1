"""What only the caller of minirun may choose for a container, and never its config.json.

An image's annotations and environment reach config.json: podman copies the annotations of its
manifest, CRI-O too. So what chooses a source on the host, or a privilege, comes from elsewhere:

    minirun run --gpus 0 --driver-root DIR IMAGE     the flags of `run`
    minirun --driver-root DIR create …               those before the command: docker's runtimeArgs
    state.json                                       what these chose, for later commands
    /etc/nvidia-container-runtime/config.toml        root's settings (gpu.nvidia.hook)

The real stack has such a list as well: of podman's, CRI-O's and containerd's annotations only those
are obeyed that their configuration names.
"""

from __future__ import annotations

from minirun.core.keeping.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Choices(Record):
    """Sources and privileges of one container."""

    gpu_driver: str = ""
    """Which GPU driver: nvidia or simulated, for the in-line step; "": what is there.

    Of another vendor (minirun.gpu.vendors) the GPUs are in config.json already.
    """
    gpus: str | None = None
    """Which GPUs a bundle gets: selectors with commas; None: as the vendor's variable says.

    For `run IMAGE` of another vendor's than NVIDIA; NVIDIA's are in config.json, as a variable.
    """
    driver_root: str = ""
    """The folder with the GPU driver's files, nodes and /sys or /proc; "" for the host's root."""
    dev_root: str = ""
    """The folder whose dev has the nodes; "": driver_root, or the host's root if it has none."""
    load_kmods: bool = False
    """The in-line step loads the driver's kernel modules and makes its nodes first."""
    gpu_hook: bool = False
    """NVIDIA's hook is executed as any other, and not taken in-line (--gpu-mode=hook)."""
    exclusive: bool = False
    """No other container gets this one's GPUs while it runs (minirun.gpu.share)."""
    layers: tuple[str, ...] = ()
    """Directories of the image's layers, lowest first; then root.path is an overlay of them."""
    volatile: bool = False
    """What the container writes need not outlive it (--rm), so overlayfs never syncs the disk."""
    subpaths: dict[str, str] = {}
    """Destination of a volume → what of it is mounted: a path below its root, which is hostile."""
    bound: bool = False
    """Its init ends with its supervisor: a step of a build is nothing without the build."""

    @property
    def nvidia_gpus(self) -> str:
        """`gpus` of a bundle if they are NVIDIA's, or simulated ones; "" if none are named."""
        return self.gpus or "" if self.gpu_driver in ("", "nvidia", "simulated") else ""

    def as_json(self) -> dict[str, Any]:
        """Return what is chosen; defaults are left out."""
        rows = zip(self._asdict().items(), DEFAULTS, strict=True)
        return {key: value for (key, value), default in rows if value != default}


DEFAULTS = Choices()  # the caller chose nothing
