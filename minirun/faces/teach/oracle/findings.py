"""What a comparison finds: pairs of events and calls that agree, and what is untrue or missing."""

import json
from typing import NamedTuple

from minirun.faces.show.log.event import Event
from minirun.faces.teach.strace import Call, string


class Finding(NamedTuple):
    """An event, the system call that it speaks of, and whether they agree."""

    stage: int
    actor: str
    pid: int
    event: Event | None
    """None for a call that the log does not tell."""
    call: Call | None
    """None for an event that no call stands behind."""
    problem: str = ""
    """How they differ; empty if they agree."""
    at: float = 0
    """When, in strace's seconds."""

    @property
    def name(self) -> str:
        """The name of the event, or of the call that has none."""
        return self.event.name if self.event else self.call.name if self.call else ""

    @property
    def missing(self) -> bool:
        """Return True if the log lacks it; any other finding is something untrue in the log."""
        return self.event is None and self.call is not None

    def __str__(self) -> str:
        """One disagreement in full, or one agreement: what the log says, what strace saw."""
        says = "nothing"
        if event := self.event:
            args = json.dumps(event.args, ensure_ascii=False)
            says = f"{event.name} {args} = {event.errno or event.ret}"
        saw = str(self.call) if self.call else "nothing"
        head = f"stage {self.stage} {self.actor} [{self.pid}] {self.name}"
        text = f"{head}\n  the log says  {says}\n  strace saw    {saw}"
        return f"{text}\n  {self.problem}" if self.problem else text


class Report:
    """What the comparison found."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.written: list[Event] = []
        """The events as strace saw them being written; of one process, in order."""
        self.cut: set[int] = set()
        """Processes that were killed while they wrote their last line: it may be in the file."""
        self.files: list[Call] = []
        """How files that events were written to were opened and renamed."""

    @property
    def logs(self) -> list[str]:
        """The files that events were written to, by the names that these had in the end."""
        names: dict[str, str] = {}
        for call in sorted(self.files, key=lambda call: call.time):
            old, *new = [string(text) or "" for text in call.args if text.startswith('"')]
            if call.name == "openat":
                names.setdefault(old, old)
            elif old in names:
                names[old] = new[0]
        return list(names.values())

    @property
    def untrue(self) -> list[str]:
        """What the log says and strace did not see."""
        return [str(f) for f in self.findings if f.problem and not f.missing]

    @property
    def missing(self) -> list[str]:
        """What strace saw and the log does not tell."""
        return [str(f) for f in self.findings if f.missing]

    @property
    def events(self) -> int:
        """How many events spoke of a system call."""
        return sum(finding.event is not None for finding in self.findings)

    @property
    def calls(self) -> int:
        """The number of system calls in the log, or missing from it."""
        return len({id(finding.call) for finding in self.findings if finding.call})
