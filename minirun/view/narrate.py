"""Which events are shown, at two levels: the stages with their milestones, or every system call."""

from minirun.view import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LEVELS = ("stages", "syscalls")
_MILESTONES = ("begin", "end", "message", "exec", "note", "gate")
_LAST_STAGE = 7


class Narrator:
    """Turns the events of one container, in their order, into rows.

    "stages": where stages begin and end, what is said and executed in between, and the number of
    system calls of each stage. "syscalls": all.
    """

    def __init__(self, level: str) -> None:
        if level not in LEVELS:
            raise ValueError(f"level {level!r} is none of {LEVELS}")
        self.level = level
        self.start: "int | None" = None
        self.calls: "dict[int, int]" = {}
        self.over = False
        """Whether the run has come to stage 7's end, or a stage has failed."""

    def row(self, event: "dict[str, Any]") -> "text.Row | None":
        """Return what to show of `event`; None for nothing."""
        if self.start is None:
            self.start = event.get("t", 0)
        kind, stage = event.get("kind"), event.get("stage", 0)
        if kind == "gate" and self.over:
            return None  # the view itself holds the last gate, until all is shown
        if kind == "syscall":
            self.calls[stage] = self.calls.get(stage, 0) + 1
        row = text.row(event, self.start)
        if kind == "end":
            self.over |= stage == _LAST_STAGE or bool(event.get("ret"))
            row = row._replace(what=row.what + self._count(stage))
        return row if self.level == "syscalls" or kind in _MILESTONES else None

    def _count(self, stage: int) -> str:
        calls = self.calls.get(stage, 0)
        return f": {calls} system call{'' if calls == 1 else 's'}"
