"""The way of CDI's names: --device nvidia.com/gpu=0, annotations, and --gpus with --gpu-mode cdi.

--device nvidia.com/gpu=0        out of the specs in /etc/cdi and /var/run/cdi
--annotation cdi.k8s.io/x=…      the same: Kubernetes' way
--gpus 0,1 --gpu-mode cdi        the same names, nvidia.com/gpu=0 and =1
--gpus 0,1 --gpu-driver amd      amd.com/gpu=0 and =1, which the way of that vendor has named
"""

from __future__ import annotations

from minirun.core.errors import UsageError
from minirun.core.keeping.visible import warn
from minirun.core.lazy import lazy
from minirun.gpu.asked.request import CDI_ANNOTATION
from minirun.gpu.asked.select import GpuSelector
from minirun.gpu.asked.ways.records import GpuRequest, RunGpus

with lazy:
    from minirun.gpu.asked.ways import cdi_edits  # 15 ms, for CDI
    from minirun.gpu.cdi import names


def is_asked(request: GpuRequest, given: RunGpus) -> bool:
    """Return True if a flag, an annotation, or the way of another vendor names CDI devices."""
    flags = request.flags
    if flags.devices or given.names or (flags.mode == "cdi" and not request.selector.is_empty):
        return True
    return any(key.startswith(CDI_ANNOTATION) for key, _ in flags.annotations)


def give(request: GpuRequest, given: RunGpus) -> RunGpus:
    """Return `given` with the edits of all these devices. Raises UsageError, GPUError, OSError."""
    flags = request.flags
    if flags.mode != "cdi" or given.names:
        request = request._replace(selector=GpuSelector())
    for text in flags.devices:
        if not names.is_qualified(text):
            hint = "as in --device nvidia.com/gpu=0"
            raise UsageError(f"--device {text}: invalid CDI device name", hint)
    devices = (*flags.devices, *given.names, *names.from_annotations(flags.annotations))
    found = cdi_edits.resolve(request, devices)
    for text in found.warnings:
        warn(text)
    if found.edits.simulated:
        request.tell_simulated()
    return given._replace(cdi=found, warnings=(*given.warnings, *found.warnings))
