"""A CDI file that is older than the driver: said once, in one line, before the container fails.

A spec names files by the driver's version; after an update, or a change of MIG devices, they are
gone, and an engine only says that a mount failed (nvidia-container-toolkit #1828, moby #51942).
"""

from __future__ import annotations

import os

from minirun.core.errors import GPUError
from minirun.gpu.cdi.registry import CdiSpec
from minirun.gpu.nvidia.shared import real

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_VERSION = "--host-driver-version="


def warnings(specs: Iterable[CdiSpec]) -> list[str]:
    """Return one line for each of these specs that does not fit this host any more."""
    found = []
    for spec in {spec.path: spec for spec in specs}.values():
        what = _problems(spec.raw, simulated=spec.simulated) if spec.path else []
        if what:
            anew = f"make it anew: nvidia-ctk cdi generate --output={spec.path}"
            found.append(f"{spec.path} is stale: {'; '.join(what)}; {anew}")
    return found


def _problems(raw: dict[str, Any], *, simulated: bool) -> list[str]:
    """Return what does not fit."""
    edits = [raw.get("containerEdits", {}), *(row["containerEdits"] for row in raw["devices"])]
    made_for = {
        word.removeprefix(_VERSION)
        for part in edits
        for hook in part.get("hooks", ())
        for word in hook.get("args", ())
        if word.startswith(_VERSION)
    }
    there = "" if simulated or not made_for else _driver()
    problems = []
    if there and there not in made_for:
        problems.append(f"it is for driver {', '.join(sorted(made_for))}, and {there} is loaded")
    paths = {mount["hostPath"] for part in edits for mount in part.get("mounts", ())}
    paths |= {
        node.get("hostPath") or node["path"]
        for part in edits
        for node in part.get("deviceNodes", ())
        if not node.get("type")
    }
    gone = sorted(path for path in paths if not os.path.lexists(path))
    if gone:
        more = f", nor are {len(gone) - 1} more" if gone[1:] else ""
        problems.append(f"{gone[0]} is not there{more}")
    return problems


def _driver() -> str:
    """Return the loaded driver's version; "" without one."""
    try:
        return real.kernel_version()
    except GPUError:
        return ""
