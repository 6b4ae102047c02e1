"""The settings of one run of the program, from its global flags and its environment.

It needs no Linux: commands that only read files (`replay`, `timeline FILE`) run without it.
"""

from __future__ import annotations

import os

from minirun.core.keeping.choices import DEFAULTS, Choices
from minirun.core.keeping.places import ROOT, STORE
from minirun.core.keeping.record import Record

LANGUAGES = ("en", "ko")
"""The languages of minirun.faces.knowledge; errors and the log are in English."""

BOUNDARIES = tuple(f"{stage}:{edge}" for stage in range(1, 8) for edge in ("begin", "end"))
"""The points at which a run can be held, and snapshots are taken: 1:begin … 7:end."""

_HOST_UID_MAP = b"         0          0 4294967295\n"
"""uid_map of the host's own user namespace, as the kernel writes it."""


def unprivileged() -> bool:
    """Return True if the caller is not the host's root: another user, or 0 of a user namespace.

    User 0 without capabilities counts as root here: the kernel refuses each call that needs one.
    """
    if os.geteuid() != 0:
        return True
    fd = os.open("/proc/self/uid_map", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 256) != _HOST_UID_MAP
    finally:
        os.close(fd)


class Settings(Record):
    """The global flags. `gates`: the boundaries of stages to stop at (minirun.core.gates)."""

    root: str = ROOT
    store: str = STORE
    cgroup_version: str = "auto"
    debug: bool = False
    log: str = ""
    """The file that --log names, to which errors are appended, and with the format json events."""
    log_format: str = "text"
    gates: tuple[str, ...] = ()
    systemd_cgroup: bool = False
    rootless: str = "auto"
    root_is_named: bool = False
    """True if the root was named (--root, $MINIRUN_ROOT), so that no other one is searched."""
    choices: Choices = DEFAULTS
    """What the flags before the command choose for each container that is made: for engines."""
    lang: str = ""
    """--lang: one of LANGUAGES; empty: the locale decides (minirun.faces.knowledge.language)."""
