"""The way of NVIDIA_VISIBLE_DEVICES: who asked for GPUs by it, the user, or only the image.

An image says NVIDIA_VISIBLE_DEVICES=all in its config, and every container of it gets every GPU of
the host: so it is with NVIDIA's runtime, and people complain (k8s-device-plugin #87). `minirun run`
takes the user's word alone:

    --gpus 0,1                          the user's word
    -e NVIDIA_VISIBLE_DEVICES=0,1       the user's word as well: the variable's own rules hold
    the image's environment             not the user: no GPU, and one line that says how to get it

As a hook under another engine, and with create --bundle, the environment is what config.json says
it is, and the real stack's rule holds (minirun.gpu.nvidia.shared.environment).
"""

from __future__ import annotations

from minirun.core.config import environment_of
from minirun.core.errors import GPUError
from minirun.gpu.asked.request import VISIBLE
from minirun.gpu.asked.select import GpuSelector
from minirun.gpu.asked.ways.records import GpuRequest, RunGpus
from minirun.gpu.nvidia.shared import environment


def requested_by_user(
    image: str, image_env: tuple[str, ...], user_env: tuple[str, ...]
) -> tuple[GpuSelector | None, str]:
    """Return the GPUs that the user's environment names, and one line if only the image's does.

    `image` is its name. Raises GPUError where the user's asks for what it cannot.
    """
    theirs, own = environment_of(image_env), environment_of(user_env)
    if VISIBLE in own:
        devices = environment.visible({**theirs, **own})
        return None if devices is None else GpuSelector(devices or ("none",)), ""
    try:
        devices = environment.visible(theirs)
        way = f"--gpus {','.join(name for name in devices or () if name) or 'none'}"
    except GPUError:  # a CDI device's name
        devices, way = (), f"--device {theirs[VISIBLE]}"
    if devices is None:
        return None, ""
    name = VISIBLE if VISIBLE in theirs else "CUDA_VERSION"
    asks = f"asks for GPUs by its own environment ({name}={theirs[name]})"
    return None, f"the image {image} {asks} and gets none: {way} gives them"


def is_asked(request: GpuRequest, given: RunGpus) -> bool:
    """Return True for the user's own variable, unless another vendor or CDI gives the GPUs."""
    flags = request.flags
    if flags.gpus is not None or flags.mode == "cdi" or given.choices.gpu_driver:
        return False
    return not request.selector.is_empty


def give(request: GpuRequest, given: RunGpus) -> RunGpus:
    """Return `given` with the variable as the user wrote it. Raises UsageError, GPUError."""
    value = environment_of(request.flags.variables)[VISIBLE]
    return given.by_variables(request, request.driver_to_tell(), f"{VISIBLE}={value}")
