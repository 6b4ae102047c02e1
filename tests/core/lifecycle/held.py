"""A run that is held at a boundary between its stages, so that something can be done to it."""

import os
import subprocess
import time

from conftest import Program, wait_until
from core.lifecycle.leftovers import Family

GPUS = ("--gpus", "0,1", "--gpu-driver=simulated")
ALL = [f"{stage}:{edge}" for stage in range(1, 8) for edge in ("begin", "end")]
WITHOUT_GPU = [boundary for boundary in ALL if boundary[0] not in "45"]
CASES = [(boundary, GPUS) for boundary in ALL] + [(boundary, ()) for boundary in WITHOUT_GPU]
"""Every boundary with a flag or none: without a GPU there are no stages 4 and 5."""


class Held:
    """A `run` that waits at a boundary (MINIRUN_GATES)."""

    def __init__(self, minirun: Program, boundary: str, *flags: str) -> None:
        self.minirun = minirun
        self.name = f"held-{os.getpid()}-{time.monotonic_ns()}"
        self.runtime: subprocess.Popen[str] = minirun.start(
            "run", "--name", self.name, *flags, "busybox", "sleep", "100",
            env=os.environ | {"MINIRUN_GATES": boundary}, start_new_session=True,
        )  # fmt: skip
        line = f'"kind":"gate","name":"{boundary}"'
        wait_until(lambda: line in minirun.log(self.name) or self._ended())
        time.sleep(0.01)  # the line is written right before the wait begins
        self.family = Family(self.runtime.pid)

    def _ended(self) -> bool:
        assert self.runtime.poll() is None, self.runtime.communicate()
        return False

    @property
    def init(self) -> int:
        """The pid of init, out of the log."""
        events = self.minirun.events(self.name)
        births = (e for e in events if e["name"] == "clone3")
        return next(int(str(e["ret"])) for e in births if "CLONE_NEW" in str(e["args"]))

    def end(self) -> tuple[int, str]:
        """Wait for the runtime; return its status and what it said."""
        _, stderr = self.runtime.communicate(timeout=20)
        return self.runtime.returncode, stderr
