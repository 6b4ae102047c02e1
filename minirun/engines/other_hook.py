"""A hook of one's own under the name of NVIDIA's: docker --gpus calls whatever has that name.

Such a hook is executed as any other where minirun has nothing to put in: no driver is loaded, and
no simulated one is asked for. NVIDIA's own program and minirun's are taken in-line even then: the
error says what is missing.
"""

import os

from minirun.core.config import Config, environment_of

_DRIVERS = ("/proc/driver/nvidia/version", "/dev/dxg")
"""What exists if a driver of NVIDIA's is loaded; the second is WSL2's."""
_MARKS = (b"NVIDIA/nvidia-container-toolkit", b"minirun")
"""What NVIDIA's program, and minirun's launcher, have in their files."""
_MOST = 32 << 20


def is_there(config: Config) -> bool:
    """Return True if a hook of stage 3 only has the name, and there is nothing to put in."""
    chosen = config.choices
    rows = [row for _, _, row in config.hooks_of_stage_3() if config.in_line(row)]
    if not rows or chosen.gpu_driver or chosen.load_kmods or chosen.driver_root or chosen.dev_root:
        return False
    if any("MINIRUN_SIM" in environment_of(row.get("env")) for row in rows):
        return False
    is_loaded = any(map(os.path.exists, _DRIVERS))
    return not is_loaded and any(_is_other(row["path"]) for row in rows)


def _is_other(path: str) -> bool:
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return False
    with open(path, "rb") as file:
        content = file.read(_MOST)
    return not any(mark in content for mark in _MARKS)
