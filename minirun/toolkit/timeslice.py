"""The time slice of a GPU: how long one process keeps it while others wait for it.

Processes on one GPU take turns. How long a turn is can be set for each GPU, in four steps; the
milliseconds behind them are the driver's secret. NVIDIA's Kubernetes driver does it as here, with

    nvidia-smi compute-policy -i GPU-… --set-timeslice 0|1|2|3

It holds for the whole host, until the driver is unloaded. A MIG device has no slice of its own.
"""

from __future__ import annotations

import os
import subprocess

from minirun.core.config import DEFAULT_PATH
from minirun.core.errors import GPUError
from minirun.gpu.inventory import Gpu, Inventory
from minirun.gpu.nvidia.shared import lookup

SLICES = ("default", "short", "medium", "long")
"""By nvidia-smi's number."""
_SECONDS = 60


def set_slice(found: Inventory, gpus: tuple[Gpu, ...], name: str) -> list[str]:
    """Set the slice of these GPUs; return a line for each. Raises GPUError, OSError."""
    program = _program(found)
    for gpu in gpus:
        _run(
            [program, "compute-policy", "-i", gpu.uuid, "--set-timeslice", str(SLICES.index(name))]
        )
    return [f"gpu {gpu.number}: time slice {name}" for gpu in gpus]


def show(found: Inventory) -> list[str]:
    """Return the slices as nvidia-smi lists them. Raises GPUError, OSError."""
    return _run([_program(found), "compute-policy", "--list"]).splitlines()


def _program(found: Inventory) -> str:
    """Return where nvidia-smi is. Raises GPUError, where the driver is simulated too."""
    if found.simulated:
        text = "the simulated driver has no time slices: nothing runs on its gpus (SIMULATED)"
        raise GPUError(text, "with a driver: minirun gpu timeslice short --gpus 0")
    return lookup.need("nvidia-smi", "it comes with the driver")


def _run(argv: list[str]) -> str:
    """Run nvidia-smi; return what it prints. Raises GPUError with its last line."""
    env = {"PATH": os.environ.get("PATH", DEFAULT_PATH)}
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=env, text=True, errors="replace", timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise GPUError(f"nvidia-smi has not answered within {_SECONDS} s") from None
    if done.returncode:
        lines = done.stdout.strip().splitlines() or [f"exit status {done.returncode}"]
        raise GPUError(f"nvidia-smi: {lines[-1]}", "a slice needs root, and a GPU that has slices")
    return done.stdout
