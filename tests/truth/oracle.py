"""The oracle: compares minirun's log with what strace saw, in both directions.

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
"""

import json
from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from typing import Any, NamedTuple

from truth import calls as table
from truth.strace import Call, string

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

TRACED = (*LISTED, *ALSO_TRUE, "openat")
"""What strace has to be asked for."""


Event = dict[str, Any]


class Report(NamedTuple):
    """What the comparison found."""

    pairs: list[tuple[Event, Call]]
    """Events and the calls that they agree with."""
    untrue: list[str]
    """Events that no call stands behind."""
    missing: list[str]
    """Calls that the log does not tell."""
    written: list[Event]
    """The events as strace saw them being written; of one process, in order."""

    @property
    def matched(self) -> Counter[str]:
        """Name of a call → how many events and calls agreed."""
        return Counter(event["name"] for event, _ in self.pairs)


def compare(calls: Iterable[Call], events: list[Event], unseen: Container[int] = ()) -> Report:
    """Compare what strace saw with the log file's events.

    `unseen`: processes that strace was not told to follow (the init that waited for `start`).
    """
    report = Report([], [], [], [])
    by_pid: dict[int, list[Call]] = defaultdict(list)
    for call in calls:
        by_pid[call.pid].append(call)
    todo = [_Process(pid, report) for pid in by_pid.keys() - {call.child for call in calls}]
    while todo:
        todo += todo.pop().read(by_pid)
    for pid in {e["pid"] for e in [*events, *report.written] if e["pid"] not in unseen}:
        in_file = [event for event in events if event["pid"] == pid]
        if in_file != [event for event in report.written if event["pid"] == pid]:
            report.untrue.append(f"the file does not hold what process {pid} wrote")
    return report


class _Process:
    """One process: its calls since the last line of the log, and what it has announced."""

    def __init__(self, pid: int, report: Report, *, watched: bool = False) -> None:
        self.pid = pid
        self.report = report
        self.watched = watched
        self.inside = False  # whether it has made pivot_root
        self.calls: list[Call] = []
        self.announced: list[Event] = []
        self.executed: list[Call] = []
        self.spoken_for: dict[int, list[Event]] = {}
        self.last_line = ""

    def read(self, by_pid: dict[int, list[Call]]) -> "list[_Process]":
        """Judge all calls of this process; return those that it has made."""
        children = []
        for call in by_pid[self.pid]:
            if call.name == "openat":
                self.watched = self.watched or _opens_log(call)
            elif self.watched:
                self._judge(call)
                if not self.watched:
                    break
            if call.child and _is_vfork(call):
                self.spoken_for[call.child] = []
            elif call.child and not self.inside:
                children.append(_Process(call.child, self.report, watched=self.watched))
        self._flush()
        self.report.untrue.extend(f"announced, not made: {_short(e)}" for e in self.announced)
        for pid, told in self.spoken_for.items():
            self._judge_vfork(told, by_pid[pid])
        return children

    def _judge_vfork(self, told: list[Event], calls: list[Call]) -> None:
        """Compare what was told of a child with what it did until it became a program, in order."""
        made = []
        for call in calls:
            if call.name in LISTED and not _is_question(call):
                made.append(call)
            if call.name in ("execve", "execveat") and call.ret == 0:
                break
        for event, call in zip(told, made, strict=False):
            self._compare(event, call)
        self.report.untrue.extend(f"not made: {_short(e)}" for e in told[len(made) :])
        self.report.missing.extend(str(call) for call in made[len(told) :])

    def _judge(self, call: Call) -> None:
        line = _log_line(call)
        if line is not None:
            if line != self.last_line:  # two log files: the same line twice
                self._event(json.loads(line))
            self.last_line = line
        elif call.name in ("execve", "execveat"):
            self._executed(call)
        elif not _is_question(call):
            self.calls.append(call)
            self.inside = self.inside or (call.name == "pivot_root" and call.ret == 0)

    def _executed(self, call: Call) -> None:
        """An execve has to be announced; the last one announced ends the watch."""
        if self.announced:
            self._compare(self.announced.pop(0), call)
            self.executed.append(call)
        else:
            self.report.missing.append(str(call))
        if call.ret == 0 and not self.announced:
            self._flush()
            self.watched = False

    def _event(self, event: Event) -> None:
        self.report.written.append(event)
        if event["pid"] in self.spoken_for:
            if event["kind"] in ("syscall", "exec"):
                self.spoken_for[event["pid"]].append(event)
            return
        if event["pid"] != self.pid:
            self.report.untrue.append(f"written by process {self.pid}: {_short(event)}")
        if event["kind"] == "exec":
            self.announced.append(event)
        elif event["kind"] == "syscall":
            # an execve that has come back was announced; any other call is the one before this line
            made = self.executed if event["name"] == "execve" else self.calls
            if made:
                self._compare(event, made.pop())
            else:
                self.report.untrue.append(f"no call before {_short(event)}")
            self._flush()

    def _compare(self, event: Event, call: Call) -> None:
        wrong = table.differences(event, call)
        if wrong:
            self.report.untrue.append(f"{_short(event)}\n  was {call}\n  {'; '.join(wrong)}")
        else:
            self.report.pairs.append((event, call))

    def _flush(self) -> None:
        """What was called and is not what the line after it speaks of is missing in the log."""
        self.report.missing.extend(str(call) for call in self.calls if call.name in LISTED)
        self.calls = []


def _is_vfork(call: Call) -> bool:
    return call.name == "clone" and any("CLONE_VFORK" in text for text in call.args)


def _opens_log(call: Call) -> bool:
    path, flags = string(call.args[1]) or "", call.args[2]
    return path.endswith("/events.jsonl") and "O_APPEND" in flags and call.ret not in (None, -1)


def _log_line(call: Call) -> str | None:
    if call.name != "write" or not call.args[1].startswith('"{\\"v\\":1,\\"t\\":'):
        return None
    return string(call.args[1])


def _is_question(call: Call) -> bool:
    if call.name == "seccomp":
        return call.args[0].startswith("SECCOMP_GET_") or call.args[2] == "NULL"
    return call.name == "prctl" and call.args[0].startswith(("PR_CAPBSET_READ", "PR_GET_"))


def _short(event: Event) -> str:
    result = event["errno"] or event["ret"]
    return f"event {event['actor']} {event['name']} {json.dumps(event['args'])[:300]} = {result}"
