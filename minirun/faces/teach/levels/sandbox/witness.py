"""The host before and after a check: what a program must not have changed, asked of the host.

The sandbox is built so that it cannot. This is the second look: it says so if it was wrong.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from minirun.core.kernel import mountinfo

_SETTINGS = Path("/proc/sys")
_MOVES = {"kernel/ns_last_pid"}
"""A setting that can be written, and that changes by itself."""
_OWN = ("net", "fs/binfmt_misc")
"""A network namespace has its own; a file system that systemd mounts at its first use."""
_CLOCK_SECONDS = 5.0
"""A step of the clock that no correction by NTP makes, in seconds."""


class Host(NamedTuple):
    """Facts about the host."""

    writable: dict[int, tuple[str, bool]]
    """Mount id → (where it is mounted, True if its file system and the mount are writable)."""
    nodes: dict[str, int]
    """Device nodes in /dev → their numbers."""
    settings: dict[str, str]
    """Settings in /proc/sys → value, those that root may write."""
    clock: float
    """CLOCK_REALTIME less CLOCK_MONOTONIC, in seconds."""


def look() -> Host:
    """Return the facts of now. Raises OSError."""
    writable = {
        mount.mount_id: (mount.mount_point, not _is_read_only(mount)) for mount in mountinfo.read()
    }
    return Host(writable, _nodes(), _settings(), time.time() - time.monotonic())


def differences(before: Host, after: Host) -> list[str]:
    """Return what has changed, a clause each; mounts and nodes that are new do not count."""
    found = []
    for key, (where, was) in before.writable.items():
        if (now := after.writable.get(key)) and now[1] != was:
            found.append(f"{where} is {'writable' if now[1] else 'read-only'} now")
    found += [f"{path} is gone or another" for path, number in before.nodes.items()
              if after.nodes.get(path) != number]  # fmt: skip
    found += [f"{name.replace('/', '.')} was {value} and is {after.settings[name]}"
              for name, value in before.settings.items()
              if after.settings.get(name, value) != value]  # fmt: skip
    if abs(after.clock - before.clock) > _CLOCK_SECONDS:
        found.append(f"the clock is {after.clock - before.clock:+.0f} seconds off")
    return found


def _is_read_only(mount: mountinfo.Mount) -> bool:
    return "ro" in (mount.super_options.split(",")[0], mount.options.split(",")[0])


def _nodes() -> dict[str, int]:
    """Return the device nodes in /dev itself, those of disks and GPUs among them."""
    found = {}
    with os.scandir("/dev") as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
                found[entry.path] = status.st_rdev
    return found


def _settings() -> dict[str, str]:
    """Return the settings of which there is one on a machine, as far as they can be read."""
    found = {}
    for folder, folders, files in os.walk(_SETTINGS):
        below = os.path.relpath(folder, _SETTINGS)
        folders[:] = [
            each for each in folders if os.path.join(below, each).lstrip("./") not in _OWN
        ]
        for file in files:
            name, path = os.path.normpath(os.path.join(below, file)), f"{folder}/{file}"
            with suppress(OSError):
                if name not in _MOVES and os.stat(path).st_mode & 0o200:
                    found[name] = Path(path).read_text(errors="replace").strip()
    return found
