"""What only the caller of minirun may choose for a container, and never its config.json.

An image's annotations and environment reach config.json: podman copies the annotations of its
manifest, CRI-O too. So what chooses a source on the host, or a privilege, comes from elsewhere:

    minirun run --gpus 0 --driver-root DIR IMAGE     the flags of `run`
    minirun --gpu-driver=amd create …                those before the command: docker's runtimeArgs
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

KEY = "choices"
"""The key of the choices in state.json."""

OTHER_VENDORS = {"amd": "AMD_VISIBLE_DEVICES", "intel": "", "gaudi": "HABANA_VISIBLE_DEVICES"}
"""Vendor → the variable that asks for its GPUs, "" for none. See minirun.gpu.vendors."""
GPU_DRIVERS = ("nvidia", "simulated", *OTHER_VENDORS)


class Choices(Record):
    """Sources and privileges of one container."""

    gpu_driver: str = ""
    """Which GPU driver the in-line step takes: one of GPU_DRIVERS, or "".

    With a vendor's name the container's variable counts, such as AMD_VISIBLE_DEVICES.
    """
    gpus: str | None = None
    """Which GPUs of such a vendor: selectors with commas; None: as its variable says."""
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
    bound: bool = False
    """Its init ends with its supervisor: a step of a build is nothing without the build."""

    def as_json(self) -> dict[str, Any]:
        """Return what is chosen; defaults are left out."""
        rows = zip(self._asdict().items(), DEFAULTS, strict=True)
        return {key: value for (key, value), default in rows if value != default}


DEFAULTS = Choices()  # the caller chose nothing
