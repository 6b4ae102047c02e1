"""process.rlimits and process.oomScoreAdj: what bounds one process, and what ends it first."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_void_p

from minirun.core.container import Container, Extra
from minirun.core.errors import ConfigError
from minirun.core.keeping import state
from minirun.core.kernel import libc
from minirun.oci.rlimits import RLIMITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.handshake import Init

LEAST_FILES = 4
"""Descriptors that a command needs to begin: 0 to 2, and the one that tells how its start went."""
_getrlimit = libc.bind("getrlimit64", c_int, c_void_p)
_setrlimit = libc.bind("setrlimit64", c_int, c_void_p)


class Limits(Extra):
    """The limits of one container's command."""

    def __init__(self, container: Container) -> None:
        """Refuse a limit below which the command could not begin, nor say why.

        Raises ConfigError.
        """
        super().__init__(container)
        self.score = self.config.process.get("oomScoreAdj")
        self.rows = self.config.process.get("rlimits") or ()
        for index, row in enumerate(self.rows):
            if row["type"] == "RLIMIT_NOFILE" and row["soft"] < LEAST_FILES:
                text = f"{row['soft']} open files, and a start takes {LEAST_FILES}"
                raise ConfigError(f"config.json: process.rlimits[{index}].soft: {text}")

    def from_outside(self, init: Init) -> None:
        """Set the score by which the OOM killer chooses: proc_pid_oom_score_adj(5)."""
        if self.score is not None:
            try:
                state.write(f"/proc/{init.pid}/oom_score_adj", str(self.score))
            except PermissionError:
                text = f"config.json: process.oomScoreAdj: {self.score} is lower than minirun's own"
                raise ConfigError(text, "that takes CAP_SYS_RESOURCE") from None

    def limit(self) -> None:
        """Set the limits of this process. Raises OSError."""
        for row in self.rows:
            setrlimit(RLIMITS[row["type"]], row["type"], row["soft"], row["hard"])


def setrlimit(kind: int, name: str, soft: int, hard: int) -> None:
    """Set a resource limit, soft and hard, in the limit's own unit: setrlimit(2)."""
    limits = (ctypes.c_uint64 * 2)(soft, hard)
    libc.check("setrlimit", _setrlimit(kind, ctypes.addressof(limits)), name)


def getrlimit(kind: int) -> tuple[int, int]:
    """Return a resource limit, (soft, hard), in the limit's own unit: getrlimit(2)."""
    limits = (ctypes.c_uint64 * 2)()
    libc.check("getrlimit", _getrlimit(kind, ctypes.addressof(limits)))
    return limits[0], limits[1]
