"""A request: what one container asks of nvidia-container-cli.

It is made from the container's environment by the hook (minirun.gpu.nvidia.hook.environment),
written as an argument list (minirun.gpu.nvidia.hook.command_line), and read back from it
(minirun.gpu.nvidia.cli.cli_args), so that either side can be the real program. Names are those of
nvidia-container-cli's options.
"""

from minirun.core.record import Record


class NvidiaRequest(Record):
    """The options of `nvidia-container-cli configure`, and the global ones before it."""

    devices: "tuple[str, ...]" = ()
    """Selectors: all, index, UUID, PCI id, G:M. None of them: driver files, but no GPU."""
    capabilities: "tuple[str, ...]" = ()
    """Out of minirun.gpu.nvidia.cli.catalog.CAPABILITIES."""
    requirements: "tuple[str, ...]" = ()
    mig_config: str = ""
    mig_monitor: str = ""
    imex_channels: "tuple[str, ...]" = ()
    rootfs: str = ""
    pid: int = 0
    ldconfig: str = ""
    """`@PATH` is the host's program; a PATH without @ the container's, which minirun never runs."""
    no_cgroups: bool = False
    no_devbind: bool = False
    no_persistenced: bool = False
    no_fabricmanager: bool = False
    no_gsp_firmware: bool = False
    no_cntlibs: bool = False
    cuda_compat_mode: str = ""
    load_kmods: bool = False
    no_pivot: bool = False
    no_create_imex_channels: bool = False
    debug: str = ""
    user: str = ""
    root: str = ""
    ldcache: str = ""
