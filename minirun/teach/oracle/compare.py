"""Compares minirun's log with what strace saw, in both directions.

**The log is true**: every event of kind syscall or exec has exactly one system call of the process
that it names, with these arguments and this result; the call lies between the line before and this
line in the same process, or right behind it for execve, which does not return.

**The log is whole**: every call of LISTED that makes the container is in the log.

The rule for "makes the container". A process is watched

- from the moment it opens events.jsonl for writing, or from its birth where its parent is watched;
- until it has become another program. The last program but one, the trampoline in a sealed memory
  file, still belongs to minirun: its one execve is announced by the log, too.

So what the interpreter does before the log is open (its own start, and of a sealed `exec` the
second one), what a hook, ldconfig or the container's command does as a program of its own, and
what the live view does, which is forked before the log is open, is outside. Outside are also
questions, which change nothing (PR_CAPBSET_READ and its like, and libseccomp's look at what the
kernel knows, which passes no program); and what init clones after pivot_root, the process of a
startContainer hook: it cannot know its number on the host, and the log has host numbers, so only
its birth is told.

A child of vfork shares its parent's memory and cannot write lines: the parent, which stands still
until the child is another program, writes them right after.

A container may outlive the command that made it; strace lets go of it then. Of a process that it
let go of, the file may hold more lines than strace saw, and its last call may lack its line.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from typing import NamedTuple

from minirun.teach.oracle import calls as table
from minirun.teach.oracle.strace import Call, string
from minirun.view.recording import Event

LISTED = (
    "clone", "clone3", "fork", "vfork", "unshare", "setns", "mount", "umount2", "open_tree",
    "move_mount", "mount_setattr", "fsopen", "fsconfig", "fsmount", "fspick", "pivot_root",
    "chroot", "mknod", "mknodat", "symlink", "symlinkat", "bpf", "capset", "prctl", "seccomp",
    "setgroups", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid",
    "sethostname", "setdomainname", "execve", "execveat",
)  # fmt: skip
"""design.md, section 5: what must be in the log."""

ALSO_TRUE = ("mkdir", "rmdir", "write", "ioctl", "keyctl")
"""What the log may speak of besides; then it must be true."""

TRACED = (*LISTED, *ALSO_TRUE, "openat", "rename", "renameat")
"""What strace has to be asked for: openat and rename say where the log lies."""

EXEC = ("execve", "execveat")


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
    """How they differ; empty where they agree."""
    at: float = 0
    """When, in strace's seconds."""

    @property
    def name(self) -> str:
        """The name of the event, or of the call that has none."""
        return str(self.event["name"]) if self.event else self.call.name if self.call else "log"

    @property
    def missing(self) -> bool:
        """Whether the log lacks it; any other disagreement is something untrue in the log."""
        return self.event is None and self.call is not None

    def __str__(self) -> str:
        """One disagreement in full, or one agreement: what the log says, what strace saw."""
        says = _short(self.event) if self.event else "nothing"
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
        self.logs: list[str] = []
        """The files that they were written to, by the names that these had in the end."""

    @property
    def pairs(self) -> list[tuple[Event, Call]]:
        """Events and the calls that they agree with."""
        return [(f.event, f.call) for f in self.findings if f.event and f.call and not f.problem]

    @property
    def untrue(self) -> list[str]:
        """What the log says and strace did not see."""
        return [str(f) for f in self.findings if f.problem and not f.missing]

    @property
    def missing(self) -> list[str]:
        """What strace saw and the log does not tell."""
        return [str(f) for f in self.findings if f.missing]

    @property
    def matched(self) -> Counter[str]:
        """Name of an event → how many of them agreed with their call."""
        return Counter(event["name"] for event, _ in self.pairs)

    @property
    def events(self) -> int:
        """How many events spoke of a system call."""
        return sum(finding.event is not None for finding in self.findings)

    @property
    def calls(self) -> int:
        """How many system calls were told, or ought to have been."""
        return len({id(finding.call) for finding in self.findings if finding.call})


def compare(calls: Iterable[Call], events: list[Event], unseen: Container[int] = ()) -> Report:
    """Compare what strace saw with the log file's events.

    `unseen`: processes that strace was not told to follow.
    """
    report = judge(calls)
    check_file(report, events, unseen)
    return report


def judge(
    calls: Iterable[Call], let_go: Container[int] = (), joined: Container[int] = ()
) -> Report:
    """Compare calls with the lines that strace saw being written.

    `let_go`: processes that still ran when strace stopped following them. `joined`: inits that
    waited for `start` when it began to: they are watched from there on.
    """
    report = Report()
    by_pid: dict[int, list[Call]] = defaultdict(list)
    for call in calls:
        by_pid[call.pid].append(call)
    roots = by_pid.keys() - {call.child for call in calls}
    todo = [_Process(pid, report, watched=pid in joined, inside=pid in joined) for pid in roots]
    while todo:
        process = todo.pop()
        todo += process.read(by_pid)
        process.end(let_go=process.pid in let_go)
    report.findings.sort(key=lambda finding: finding.at)
    return report


def check_file(
    report: Report, events: list[Event], unseen: Container[int] = (), let_go: Container[int] = ()
) -> None:
    """Add to `report` where a file's events are not what strace saw being written."""
    for pid in sorted({e["pid"] for e in [*events, *report.written] if e["pid"] not in unseen}):
        in_file = [event for event in events if event["pid"] == pid]
        seen = [event for event in report.written if event["pid"] == pid]
        if pid in let_go:
            in_file = in_file[: len(seen)]
        if in_file != seen:
            text = f"the file does not hold what process {pid} wrote"
            report.findings.append(Finding(0, "", pid, None, None, text))


class _Process:
    """One process: its calls since the last line of the log, and what it has announced."""

    def __init__(
        self, pid: int, report: Report, *, watched: bool = False, inside: bool = False
    ) -> None:
        self.pid = pid
        self.report = report
        self.watched = watched
        self.inside = inside  # whether it has made pivot_root
        self.calls: list[Call] = []
        self.announced: list[Event] = []
        self.executed: list[Call] = []
        self.spoken_for: dict[int, tuple[list[Event], list[Call]]] = {}
        self.last_line = ""
        self.stage, self.actor, self.now = 0, "runtime", 0.0

    def read(self, by_pid: dict[int, list[Call]]) -> "list[_Process]":
        """Judge all calls of this process; return those that it has made."""
        children = []
        for call in by_pid[self.pid]:
            self.now = call.time
            if call.name == "openat":
                self._opened(call)
            elif self.watched:
                self._judge(call)
                if not self.watched:
                    break
            if call.child and self.watched and _is_vfork(call):
                self.spoken_for[call.child] = ([], by_pid[call.child])
            elif call.child and not self.inside:
                children.append(self._child(call.child))
        return children

    def _child(self, pid: int) -> "_Process":
        child = _Process(pid, self.report, watched=self.watched)
        child.stage, child.actor = self.stage, self.actor
        return child

    def end(self, *, let_go: bool) -> None:
        """Judge what is left. Of a process that strace let go of, that proves nothing."""
        if not let_go:
            self._flush()
            for event in self.announced:
                self._untrue(event, "announced, not made")
        for pid, (told, made) in self.spoken_for.items():
            self._judge_vfork(pid, told, made)

    def _judge_vfork(self, pid: int, told: list[Event], calls: list[Call]) -> None:
        """Compare what was told of a child with what it did until it became a program, in order."""
        made = []
        for call in calls:
            if call.name in LISTED and not _is_question(call):
                made.append(call)
            if call.name in EXEC and call.ret == 0:
                break
        for event, call in zip(told, made, strict=False):
            self._compare(event, call)
        for event in told[len(made) :]:
            self._untrue(event, f"process {pid} did not do it")
        for call in made[len(told) :]:
            self._missing(call)

    def _judge(self, call: Call) -> None:
        line = _log_line(call)
        if line is not None:
            if line != self.last_line:  # two log files: the same line twice
                self._event(json.loads(line))
            self.last_line = line
        elif call.name.startswith("rename"):
            self._renamed(call)
        elif call.name in EXEC:
            self._executed(call)
        elif not _is_question(call):
            self.calls.append(call)
            self.inside = self.inside or (call.name == "pivot_root" and call.ret == 0)

    def _opened(self, call: Call) -> None:
        """The log, open for writing, begins the watch."""
        path, flags = string(call.args[1]) or "", call.args[2]
        if path.endswith("/events.jsonl") and "O_APPEND" in flags and call.ret not in (None, -1):
            self.watched = True
            if path not in self.report.logs:
                self.report.logs.append(path)

    def _renamed(self, call: Call) -> None:
        """The log of a container that goes lies in the history from then on."""
        old, new = [string(text) or "" for text in call.args if text.startswith('"')]
        if call.ret == 0 and old in self.report.logs:
            self.report.logs[self.report.logs.index(old)] = new

    def _executed(self, call: Call) -> None:
        """An execve has to be announced; the last one announced ends the watch."""
        if self.announced:
            self._compare(self.announced.pop(0), call)
            self.executed.append(call)
        else:
            self._missing(call)
        if call.ret == 0 and not self.announced:
            self._flush()
            self.watched = False

    def _event(self, event: Event) -> None:
        self.report.written.append(event)
        if event["pid"] in self.spoken_for:
            if event["kind"] in ("syscall", "exec"):
                self.spoken_for[event["pid"]][0].append(event)
            return
        self.stage, self.actor = event["stage"], event["actor"]
        if event["pid"] != self.pid:
            self._untrue(event, f"written by process {self.pid}, not {event['pid']}")
        if event["kind"] == "exec":
            self.announced.append(event)
        elif event["kind"] == "syscall":
            # an execve that has come back was announced; any other call is the one before this line
            made = self.executed if event["name"] == "execve" else self.calls
            if made:
                self._compare(event, made.pop())
            else:
                self._untrue(event, "no call before this line")
            self._flush()

    def _compare(self, event: Event, call: Call) -> None:
        self._found(event, call, "; ".join(table.differences(event, call)))

    def _untrue(self, event: Event, problem: str) -> None:
        self._found(event, None, problem)

    def _missing(self, call: Call) -> None:
        self._found(None, call, "the log does not tell it")

    def _found(self, event: Event | None, call: Call | None, problem: str) -> None:
        stage, actor, pid = self.stage, self.actor, self.pid
        if event:
            stage, actor, pid = event["stage"], event["actor"], event["pid"]
        at = call.time if call else self.now
        self.report.findings.append(Finding(stage, actor, pid, event, call, problem, at))

    def _flush(self) -> None:
        """What was called and is not what the line after it speaks of is missing in the log."""
        for call in self.calls:
            if call.name in LISTED:
                self._missing(call)
        self.calls = []


def _is_vfork(call: Call) -> bool:
    return call.name == "clone" and any("CLONE_VFORK" in text for text in call.args)


def _log_line(call: Call) -> str | None:
    if call.name != "write" or not call.args[1].startswith('"{\\"v\\":1,\\"t\\":'):
        return None
    return string(call.args[1])


def _is_question(call: Call) -> bool:
    if call.name == "seccomp":
        return call.args[0].startswith("SECCOMP_GET_") or call.args[2] == "NULL"
    return call.name == "prctl" and call.args[0].startswith(("PR_CAPBSET_READ", "PR_GET_"))


def _short(event: Event) -> str:
    args = json.dumps(event["args"], ensure_ascii=False)
    return f"{event['name']} {args} = {event['errno'] or event['ret']}"
