"""Compares minirun's log with what strace saw, in both directions.

**The log is true**: every event of kind syscall, netlink or exec has exactly one system call of the
process that it names, with these arguments and this result; the call lies between the line before
and this line in the same process, or right behind it for execve, which does not return.

**The log is whole**: every call of LISTED that makes the container is in the log.

The rule for "makes the container". A process is watched

- from the moment it opens events.jsonl for writing, or from its birth if its parent is watched;
- until it has become another program. The last program but one, the trampoline in a sealed memory
  file, still belongs to minirun: its one execve is announced by the log, too.

So what the interpreter does before the log is open (its own start, and of a sealed `exec` the
second one), what a hook, ldconfig or the container's command does as a program of its own, and
what the live view does, which is forked before the log is open, is outside. Outside are also

- questions, which change nothing: PR_CAPBSET_READ and its like, and libseccomp's look at what the
  kernel knows, which passes no program;
- what `--step` does in order to look: it writes notes and makes nothing. The shell that it opens is
  a `minirun exec`, which opens the log again, and is watched;
- what init clones after pivot_root, the process of a startContainer hook: it cannot know its number
  on the host, and the log has host numbers, so only its birth is told;
- every program in the container, whatever files it opens.

A process that a container may look into does not hold the log (minirun.core.events.to_pipe): it
writes its lines into a pipe, and its caller passes them on. Each such line is one that its process
wrote.

A container may outlive the command that made it; strace lets go of it then. Of a process that it
let go of, the file may hold more lines than strace saw, and its last call may lack its line.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Container, Iterable
from itertools import zip_longest

from minirun.core.keeping import places
from minirun.faces.show.log.event import Event, event_of
from minirun.faces.teach.oracle import calls as table
from minirun.faces.teach.oracle import netlink
from minirun.faces.teach.oracle.findings import Finding, Report
from minirun.faces.teach.strace import Call, string

LISTED = (
    "clone", "clone3", "fork", "vfork", "unshare", "setns", "mount", "umount2", "open_tree",
    "move_mount", "mount_setattr", "fsopen", "fsconfig", "fsmount", "fspick", "pivot_root",
    "chroot", "mknod", "mknodat", "symlink", "symlinkat", "bpf", "capset", "prctl", "seccomp",
    "setgroups", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid",
    "sethostname", "setdomainname", "execve", "execveat", *netlink.TYPES.values(),
)  # fmt: skip
"""What must be in the log: each of these calls, and requests of rtnetlink, that a start makes."""

NETLINK = tuple(netlink.TYPES.values())

ALSO_TRUE = ("mkdir", "rmdir", "write", "ioctl", "keyctl")
"""What the log may speak of besides; then it must be true."""

TRACED = (
    *(name for name in LISTED if name.islower()), *ALSO_TRUE, "openat", "rename", "renameat",
    "sendto", "recvfrom",
)  # fmt: skip
"""What strace has to be asked for: openat and rename say where the log lies; a request of
rtnetlink is sent, and answered."""

EXEC = ("execve", "execveat")
_VIEWER = "step"
"""The actor that only looks."""


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
    passed_on: list[tuple[_Process, Event]] = []
    todo = [_Process(pid, report, passed_on, inside=pid in joined) for pid in roots]
    while todo:
        process = todo.pop()
        todo += process.read(by_pid)
        process.end(let_go=process.pid in let_go)
    for process, event in passed_on:
        if event not in report.written:
            process.untrue(event, f"written by process {process.pid}, not {event.pid}")
    report.findings.sort(key=lambda finding: finding.at)
    return report


def check_file(
    report: Report, events: list[Event], unseen: Container[int] = (), let_go: Container[int] = ()
) -> None:
    """Add to `report` where a file's events begin not to be what strace saw being written.

    `unseen`: processes that strace was not told to follow; `let_go`: those that it left.
    """
    for pid in sorted({e.pid for e in [*events, *report.written] if e.pid not in unseen}):
        in_file = [event for event in events if event.pid == pid]
        seen = [event for event in report.written if event.pid == pid]
        if pid in let_go:
            in_file = in_file[: len(seen)]
        if pid in report.cut and len(in_file) < len(seen):
            seen.pop()
        for held, wrote in zip_longest(in_file, seen):
            event = held or wrote
            if held != wrote and event:
                text = f"the file does not hold what process {pid} wrote, from this line on"
                stage, actor = event.stage, event.actor
                report.findings.append(Finding(stage, actor, pid, event, None, text))
                break


class _Process:
    """One process: its calls since the last line of the log, and what it has announced."""

    def __init__(
        self,
        pid: int,
        report: Report,
        passed_on: list[tuple[_Process, Event]],
        *,
        watched: bool = False,
        inside: bool = False,
    ) -> None:
        self.pid = pid
        self.report = report
        self.passed_on = passed_on  # lines of others
        self.watched = watched or inside
        self.inside = inside  # whether it has made pivot_root
        self.abroad = inside  # whether it has entered the container's namespaces in any way
        self.viewer = False
        self.calls: list[Call] = []
        self.announced: list[Event] = []
        self.executed: list[Call] = []
        self.last_line = ""
        self.stage, self.actor, self.now = 0, "runtime", 0.0

    def read(self, by_pid: dict[int, list[Call]]) -> list[_Process]:
        """Judge all calls of this process; return those that it has made."""
        children = []
        for call in by_pid[self.pid]:
            self.now = call.time
            if call.name == "openat":
                self._opened(call)
            elif self.watched:
                self._judge(call)
                if self.abroad and not self.watched:  # a program of the container's
                    break
            if call.child and not self.inside:
                children.append(self._child(call.child))
        return children

    def _child(self, pid: int) -> _Process:
        watched = self.watched and not self.viewer
        child = _Process(pid, self.report, self.passed_on, watched=watched)
        child.stage, child.actor, child.abroad = self.stage, self.actor, self.abroad
        return child

    def end(self, *, let_go: bool) -> None:
        """Judge what is left. Of a process that strace let go of, that proves nothing."""
        if not let_go:
            self._flush()
            for event in self.announced:
                self.untrue(event, "announced, not made")

    def _judge(self, call: Call) -> None:
        line = log_line(call)
        if line is not None:
            if call.ret is None:
                self.report.cut.add(self.pid)
            if line != self.last_line:  # two log files: the same line twice
                self._event(event_of(json.loads(line)))
            self.last_line = line
        elif call.name.startswith("rename"):
            self.report.files += [call] if call.ret == 0 else []
        elif call.name in EXEC:
            self._executed(call)
        elif call.name in ("sendto", "recvfrom"):
            self._sent(call)
        elif not is_question(call) and not self.viewer:
            self.calls.append(call)
            self.inside = self.inside or (call.name == "pivot_root" and call.ret == 0)
            self.abroad = self.abroad or call.name in ("pivot_root", "setns")

    def _sent(self, call: Call) -> None:
        """Take a request of rtnetlink for a call; its result comes with the kernel's answer."""
        if made := netlink.request(call):
            self.calls.append(made)
        sequence, errno = netlink.answer(call)
        for at, made in enumerate(self.calls):
            if sequence and made.name in NETLINK and made.args[0] == sequence:
                self.calls[at] = made._replace(ret=-1 if errno else 0, errno=errno)

    def _opened(self, call: Call) -> None:
        """The log, open for writing, begins the watch."""
        path, flags = string(call.args[1]) or "", call.args[2]
        append = "O_NOCTTY|O_APPEND" in flags and call.ret not in (None, -1)
        if path.endswith(f"/{places.EVENTS}") and append:
            self.watched = True
            self.report.files.append(call)

    def _executed(self, call: Call) -> None:
        """An execve has to be announced. It ends the watch, unless it is the trampoline's."""
        one_more = False
        if self.announced:
            event = self.announced.pop(0)  # the trampoline is ours as well:
            one_more = str(event.args.get("path")).startswith("memfd:")
            self._compare(event, call)
            self.executed.append(call)
        else:
            self._missing(call)
        if call.ret == 0 and not one_more:
            self._flush()
            self.watched = False

    def _event(self, event: Event) -> None:
        if event.pid != self.pid:
            self.passed_on.append((self, event))
            return
        self.report.written.append(event)
        self.stage, self.actor = event.stage, event.actor
        if event.actor == _VIEWER:
            self.viewer, self.calls = True, []
        if event.kind == "exec":
            self.announced.append(event)
        elif event.kind in ("syscall", "netlink"):
            # an execve that has come back was announced; any other call is the one before this
            # line; between a request of rtnetlink and its line the socket is waited for
            made = self.executed if event.name == "execve" else self.calls
            is_request = event.kind == "netlink"
            fitting = [call for call in made if not is_request or call.name in NETLINK]
            if fitting:
                made.remove(fitting[-1])
                self._compare(event, fitting[-1])
            else:
                self.untrue(event, "no call before this line")
            self._flush()

    def _compare(self, event: Event, call: Call) -> None:
        self._found(event, call, "; ".join(table.differences(event, call)))

    def untrue(self, event: Event, problem: str) -> None:
        self._found(event, None, problem)

    def _missing(self, call: Call) -> None:
        self._found(None, call, "the log does not tell it")

    def _found(self, event: Event | None, call: Call | None, problem: str) -> None:
        stage, actor, pid = self.stage, self.actor, self.pid
        if event:
            stage, actor, pid = event.stage, event.actor, event.pid
        at = call.time if call else self.now
        self.report.findings.append(Finding(stage, actor, pid, event, call, problem, at))

    def _flush(self) -> None:
        """What was called and is not what the line after it speaks of is missing in the log."""
        for call in self.calls:
            if call.name in LISTED:
                self._missing(call)
        self.calls = []


def log_line(call: Call) -> str | None:
    """Return the line of the log that a call writes; None if it writes none."""
    if call.name != "write" or not call.args[1].startswith('"{\\"v\\":1,\\"t\\":'):
        return None
    return string(call.args[1])


def is_question(call: Call) -> bool:
    """Return True for a call that only asks what there is."""
    if call.name == "seccomp":
        return call.args[0].startswith("SECCOMP_GET_") or call.args[2] == "NULL"
    return call.name == "prctl" and call.args[0].startswith(("PR_CAPBSET_READ", "PR_GET_"))
