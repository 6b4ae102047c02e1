"""Which way a container's GPUs came, and what has chosen it, in one line (`gpu why --path`).

    train: cdi, asked by annotation (CDI): cdi.k8s.io/x=nvidia.com/gpu=0, through containerd/cri;
    mode "legacy" (/etc/nvidia-container-runtime/config.toml, line 12); driver 550.163.01; Linux …

It is for a report of a bug: what a reader asks back first stands in it.
"""

import os

from minirun import __version__
from minirun.core.container import Container
from minirun.core.errors import MinirunError
from minirun.core.keeping import state
from minirun.engines.origin import PLAIN
from minirun.faces.inspect.gpu import why
from minirun.faces.inspect.gpu.report import GpuReport
from minirun.gpu.nvidia.shared import config as toolkit
from minirun.gpu.nvidia.shared import versions

_MODE = "mode"
_NOT_ASKED = "no GPU was asked for"
_UNKNOWN = "by config.json"
_JIT = "which is jit-cdi for a variable and cdi for CDI names"
_LEGACY = "which is legacy for a variable and cdi for CDI names"


def line(container: Container, found: GpuReport) -> str:
    """Return it. What is in it of others is printable only where it is written."""
    way = found.mode or (_UNKNOWN if found.given.gpus else _NOT_ASKED)
    nodes = [why.by_node(node) for node in found.given.device_nodes]
    asked = [f"{row.by}: {row.what}" for row in found.asked if row.counts and row not in nodes]
    engine = (container.record.origin or {}).get("engine", "")
    by = [f"asked by {', '.join(asked)}"] if asked else []
    by += [f"through {engine}"] if engine not in ("", PLAIN) else []
    given = found.given
    driver = f"driver {given.driver}{' SIMULATED' if given.simulated else ''}"
    machine = os.uname()
    parts = [
        ", ".join([f"{found.id}: {way}", *by]),
        *([toolkits_mode()] if engine and way != _NOT_ASKED else []),
        *([driver] if given.driver else []),
        f"minirun {__version__}, {machine.sysname} {machine.release} {machine.machine}",
    ]
    return "; ".join(parts)


def toolkits_mode() -> str:
    """Say which mode NVIDIA's runtime has here, where that stands, and what it means.

    Its file may have been changed since the container was made.
    """
    try:
        settings = toolkit.load()
    except MinirunError as error:
        return f"NVIDIA's toolkit: {error}"
    place = _place(settings.source) if settings.source else "no config.toml"
    new = settings.version != versions.LEGACY
    means = f", {_JIT if new else _LEGACY}" if settings.mode == "auto" else ""
    return f'NVIDIA\'s runtime: mode "{settings.mode}" ({place}){means}'


def _place(path: str) -> str:
    """Return the file, and the line of its mode if it stands in a line of its own."""
    table = ""
    for number, text in enumerate(state.read_text(path).splitlines(), 1):
        words = text.split("#")[0].strip()
        if words.startswith("["):
            table = words.strip("[] ")
        elif words.partition("=")[0].strip() == _MODE and table == "nvidia-container-runtime":
            return f"{path}, line {number}"
    return path
