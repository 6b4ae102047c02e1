"""What one run of the program works with, out of global flags and environment.

A leaf: commands that only read files (`replay`, `timeline FILE`) run where there is no Linux.
"""

from minirun.core.choices import NOTHING, Choices
from minirun.core.places import ROOT, STORE
from minirun.core.record import Record

LANGUAGES = ("en", "ko")
"""What minirun.knowledge speaks; errors and the log are in English."""

BOUNDARIES = tuple(f"{stage}:{edge}" for stage in range(1, 8) for edge in ("begin", "end"))
"""Where a run can be held, and where snapshots are taken: 1:begin … 7:end."""


class Settings(Record):
    """The global flags. `gates`: the boundaries of stages to stop at (minirun.core.gates)."""

    root: str = ROOT
    store: str = STORE
    cgroup_version: str = "auto"
    debug: bool = False
    log: str = ""
    log_format: str = "text"
    gates: "tuple[str, ...]" = ()
    systemd_cgroup: bool = False
    rootless: str = "auto"
    named: bool = False
    """Whether the root was named (--root, $MINIRUN_ROOT), so that no other one is looked at."""
    choices: Choices = NOTHING
    """What the flags before the command choose for each container that is made: for engines."""
    lang: str = ""
    """--lang: one of LANGUAGES; empty: the locale decides (minirun.knowledge.language)."""
