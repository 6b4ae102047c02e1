"""Requests: what `run` asks for of GPUs, and what one container asks of nvidia-container-cli.

The hook makes the second of the container's environment; it is written as an argument list, and
read back from it (minirun.gpu.nvidia.hook), so that either side can be the real program. Names are
those of nvidia-container-cli's options.
"""

from __future__ import annotations

from minirun.common import docker_record
from minirun.core.errors import GPUError
from minirun.core.keeping.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.common.docker_record import Declared
    from minirun.core.keeping.container_record import ContainerRecord

CAPABILITIES = ("compat32", "compute", "display", "graphics", "ngx", "utility", "video")
"""Of NVIDIA's driver, in the order of the hook's arguments (alphabetical)."""
DEFAULT_CAPABILITIES = ("compute", "utility")
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
CDI_ANNOTATION = "cdi.k8s.io/"
"""What the names of annotations begin with that ask for CDI devices."""
VENDOR_VARIABLES = ("AMD_", "HABANA_")
"""What the names of variables begin with that ask for other GPUs than NVIDIA's."""


REQUIRE, DISABLE_REQUIRE = "NVIDIA_REQUIRE_", "NVIDIA_DISABLE_REQUIRE"


class UnmetRequirement(GPUError):
    """A condition of NVIDIA_REQUIRE_* does not hold here."""

    def __init__(self, text: str, hint: str, requirement: str) -> None:
        super().__init__(text, hint)
        self.requirement = requirement
        """The whole expression, as the variable has it."""

    def explained(self, record: ContainerRecord, env: dict[str, str]) -> GPUError:
        """Return the error with the variable that makes the condition, whose it is, a way out."""
        names = [k for k, v in env.items() if k.startswith(REQUIRE) and v == self.requirement]
        name = names[0] if names else "CUDA_VERSION"
        whose = f"{name} {source(record, name)}"
        hint = f"{whose}; {self.hint}; -e {DISABLE_REQUIRE}=1 passes over it"
        return GPUError(str(self), hint)


def source(record: ContainerRecord, name: str) -> str:
    """Return whose a variable is: of the image, or of the caller; an engine does not say."""
    docker = docker_record.of(record)
    if not docker.image:
        return "of config.json"
    if name in (docker.declared or {}).get("gpu_variables", ()):
        return f"of the image {docker.image}"
    return "of the command line (-e)"


class NvidiaRequest(Record):
    """The options of `nvidia-container-cli configure`, and the global ones before it."""

    devices: tuple[str, ...] = ()
    """Selectors: all, index, UUID, PCI id, G:M. None of them: driver files, but no GPU."""
    capabilities: tuple[str, ...] = ()
    """Out of CAPABILITIES."""
    requirements: tuple[str, ...] = ()
    mig_config: str = ""
    mig_monitor: str = ""
    imex_channels: tuple[str, ...] = ()
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

    def leaves_out(self, path: str) -> bool:
        """Return True for a daemon's socket that the container is not to get."""
        return (self.no_persistenced and "/nvidia-persistenced/" in path) or (
            self.no_fabricmanager and "/nvidia-fabricmanager/" in path
        )


class GpuOptions(Record):
    """What the flags of `run` say of GPUs and CDI devices, in their words."""

    gpus: str | None = None
    """--gpus; None if it is not given."""
    driver: str = ""
    driver_root: str = ""
    dev_root: str = ""
    load_kmods: bool = False
    exclusive: bool = False
    """--gpu-exclusive, before the command."""
    mode: str = "legacy"
    devices: tuple[str, ...] = ()
    """CDI devices of --device: vendor.com/class=name."""
    spec_dirs: tuple[str, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    variables: tuple[str, ...] = ()
    """--env-file and -e, with their values."""
    mapped: bool = False
    """The container is to have a user namespace."""
    image: str = ""
    image_env: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """No GPU and no CDI device is asked for, not even by the image."""
        if (
            self.gpus is not None
            or self.driver_root
            or self.dev_root
            or self.load_kmods
            or self.devices
        ):
            return False
        asking = ("NVIDIA_VISIBLE_DEVICES=", "CUDA_VERSION=")
        return not (
            any(text.startswith(asking) for text in (*self.image_env, *self.variables))
            or any(text.startswith(VENDOR_VARIABLES) for text in self.variables)
            or any(key.startswith(CDI_ANNOTATION) for key, _ in self.annotations)
        )

    @property
    def of_image(self) -> Declared:
        """For a record's `declared`: the image's variables about GPUs, but those that -e replaces.

        Empty if there is none.
        """
        own = {text.partition("=")[0] for text in self.variables}
        names = [text.partition("=")[0] for text in self.image_env]
        names = [name for name in names if name.startswith(("NVIDIA_", "CUDA_"))]
        theirs = [name for name in names if name not in own]
        return {"gpu_variables": theirs} if theirs else {}
