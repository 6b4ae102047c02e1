"""A check of a learner's program leaves nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minirun.core.kernel import mountinfo


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = left()
    yield
    assert left() == before


def left() -> dict[str, Any]:
    """What a check may not change: mounts, links, cgroups of sandboxes.

    /run/ladder is no sign: programs of lessons that run beside this test make it, and remove it.
    """
    own = f"minirun-level-{os.getpid()}"
    return {
        "mounts": [m for m in mountinfo.read() if "/run/ladder" in m.mount_point],
        "links": [name for name in os.listdir("/sys/class/net") if name.startswith("ladder")],
        "cgroups": [p for p in Path("/sys/fs/cgroup").glob("*/minirun-level-*") if p.name == own],
    }
