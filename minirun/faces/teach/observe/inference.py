"""The events of a start that was seen, in the form of minirun's own log: minirun.core.events.

Each has "observed":true. Their times are those of CLOCK_MONOTONIC, as strace took them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from minirun.core.keeping import jsonlite
from minirun.core.keeping.numbers import whole
from minirun.faces.show.log.event import Event
from minirun.faces.teach.observe import failure, observed_messages, process_tree, roles, rules
from minirun.faces.teach.observe.observed_messages import ObservedMessage
from minirun.faces.teach.observe.process_tree import EXEC, Process, is_thread
from minirun.faces.teach.observe.roles import ObservedStart
from minirun.faces.teach.oracle import calls as table
from minirun.faces.teach.strace import Call, parse, seen, string

_OTHER_NAMES = {
    "mkdirat": "mkdir", "mknod": "mknodat", "symlink": "symlinkat", "setresuid": "setuid",
    "setresgid": "setgid", "execveat": "execve", "unlinkat": "rmdir", "fork": "clone",
    "vfork": "clone",
}  # fmt: skip
"""strace's name of a call → the log's, if it is another one."""
_FOLDERS = ("mkdir", "mkdirat", "rmdir", "unlinkat")
_CGROUPS = "/sys/fs/cgroup/"
_WRITTEN = (_CGROUPS, "/proc/")
"""Folders whose files tell the kernel something if they are written to."""
_OWN_FILES = ("/proc/self/fd/", "/proc/thread-self/fd/")
_NO_PLACE = "PR_SET_VMA"
"""What glibc and Go call to give their memory a name."""
_KINDS = {"S_IFCHR": "c", "S_IFBLK": "b", "S_IFIFO": "p"}
"""How mknod(1) calls the kinds of nodes."""
_POINTER = re.compile(r"0x[0-9a-f]{6,}")
"""What strace writes for a string that it could not read."""
UNREADABLE = "not readable"
"""The note that a process hid its memory from strace, and with it what it said."""
FAILED_BY = "failed by"
"""The note that names the call by which a start failed."""
_LONGEST, _LONGEST_REPORT = 200, 4000
"""Characters of a message's text, and of what a runtime says of its failure."""


def infer(text: str, zero: float, waiting: dict[int, str] | None = None) -> list[Event]:
    """Return the events of all containers that were started, in their order.

    `text`: what strace wrote; `zero`: see minirun.faces.teach.observe.trace; `waiting`: the inits
    that waited for `start` before, with their containers' ids.
    """
    processes = process_tree.read(parse(text))
    messages = observed_messages.read(processes)
    found = roles.read(processes, messages) or roles.resumed(processes, waiting or {})
    if processes and not found:
        found = [roles.without_init(processes)]
        found[0].stages = failure.find(found[0]) is not None
    makers = [_EventMaker(start, messages, zero, alone=len(found) == 1) for start in found]
    return [event for each in makers for event in each.events()]


def lines(events: list[Event]) -> str:
    """Return events as a log has them."""
    return "".join(jsonlite.dumps(event.fields()) + "\n" for event in events)


class _EventMaker:
    """Makes the events of one container's start."""

    def __init__(
        self, start: ObservedStart, messages: list[ObservedMessage], zero: float, *, alone: bool
    ) -> None:
        self.start = start
        self.messages = messages
        self.zero = zero
        self.alone = alone  # all that was seen belongs to it

    def events(self) -> list[Event]:
        """Return the events in the order in which they happened."""
        found = [*self._stages(), *self._messages(), *self._hidden()]
        for pid, process in self.start.processes.items():
            if self.start.has(pid):
                found += self._done(process)
            elif self.alone:
                found += self._around(process)
        return [event for _, event in sorted([*found, *self._failed()], key=lambda pair: pair[0])]

    def _failed(self) -> Iterator[tuple[tuple[float, int], Event]]:
        """Yield the end of a stage that failed, and the call by which it did."""
        failed = failure.find(self.start)
        if not failed:
            return
        call, pid = failed.call, failed.pid
        args = {"call": str(call), "report": failed.report[:_LONGEST_REPORT]}
        event = self._event(call.time, pid, "note", FAILED_BY, args, ret=-1,
                            began=call.began)  # fmt: skip
        yield (call.time, 2), event
        begun = rules.times(self.start)
        rule = next((rule for rule in rules.TABLE if rule.stage == event.stage), None)
        if rule and rule.stage in begun:
            begin = begun[rule.stage][0]
            yield (call.time, 2), self._event(
                call.time, self._owner(rule.actor), "end", rule.name, {"error": str(call)}, ret=-1,
                stage=rule.stage, actor=rule.actor, took=call.time - begin,
            )  # fmt: skip

    def _stages(self) -> Iterator[tuple[tuple[float, int], Event]]:
        """Yield where stages begin and end."""
        for rule in rules.TABLE:
            begin, end = rules.times(self.start).get(rule.stage, (0.0, 0.0))
            if begin:
                pid = self._owner(rule.actor)
                yield (begin, 3), self._event(
                    begin, pid, "begin", rule.name, stage=rule.stage, actor=rule.actor,
                    why=rule.why,
                )  # fmt: skip
                if end:
                    yield (end, 2), self._event(
                        end, pid, "end", rule.name, stage=rule.stage, actor=rule.actor,
                        took=end - begin,
                    )  # fmt: skip

    def _owner(self, actor: str) -> int:
        start = self.start
        return {"runtime": start.runtime, "init": start.init}.get(actor, start.injector)

    def _messages(self) -> Iterator[tuple[tuple[float, int], Event]]:
        """Yield the messages between actors of this container, until its command runs."""
        command = self.start.command
        for message in self.messages:
            at = message.arrived
            late = command and at > command.time
            if late or message.is_log or not self.start.has(message.sender):
                continue
            to = message.receiver or self._reader(message)
            if not to or not self.start.has(to) or at == message.call.began:
                continue
            sender, receiver = (roles.role(self.start, pid, at) for pid in (message.sender, to))
            if sender != receiver:
                args = {"to": receiver, "bytes": message.call.ret, "text": message.text[:_LONGEST]}
                yield (
                    (at, 1),
                    self._event(
                        at, message.sender, "message", message.name, args, began=message.call.began
                    ),
                )

    def _hidden(self) -> Iterator[tuple[tuple[float, int], Event]]:
        """Yield a note for each process whose reads and writes strace could not read."""
        for pid in self.start.processes:
            calls = [call for call in self.start.processes[pid].calls if _is_hidden(call)]
            if calls and self.start.has(pid):
                args = {"calls": len(calls)}
                at = calls[0].time
                yield (at, 1), self._event(at, pid, "note", UNREADABLE, args)

    def _reader(self, message: ObservedMessage) -> int:
        """The hook that had the pipe and did not read it."""
        return next((pid for pid, state in self.start.hooks.items() if state == message), 0)

    def _done(self, process: Process) -> Iterator[tuple[tuple[float, int], Event]]:
        """Yield what a process of this container did to make it."""
        files: dict[int, str] = {}
        for call in process.calls:
            if self.start.command and self._is_the_containers(process.pid, call):
                return
            if call.made and call.ret is not None:
                files[call.ret] = call.made
            if _makes(call):
                kind = "exec" if call.name in EXEC and call.ret == 0 else "syscall"
                name = _OTHER_NAMES.get(call.name, call.name)
                yield (call.time, 1), self._event(
                    call.time, process.pid, kind, name, _args(call, name, files),
                    ret=call.child or call.ret, errno=call.errno, began=call.began,
                    took=call.time - call.began,
                )  # fmt: skip

    def _is_the_containers(self, pid: int, call: Call) -> bool:
        """Return True for what the container's command does, and what it makes."""
        command, start = self.start.command, self.start
        if not command:
            return False
        return any(
            (call.time if each == pid else start.processes[child].born) > command.time
            for each, child in zip(
                (pid, *start.ancestors(pid)), (pid, pid, *start.ancestors(pid)), strict=False
            )
            if each == (start.init or start.entrant)
        )

    def _around(self, process: Process) -> Iterator[tuple[tuple[float, int], Event]]:
        """Yield what an engine's processes execute around it."""
        for call in process.calls:
            if call.name in EXEC and call.ret == 0:
                yield (call.time, 1), self._event(
                    call.time, process.pid, "exec", "execve", _args(call, "execve", {}),
                    began=call.began, took=call.time - call.began,
                )  # fmt: skip

    def _event(
        self, at: float, pid: int, kind: str, name: str, args: dict[str, Any] | None = None,
        *, stage: int | None = None, actor: str = "", ret: int | None = 0, errno: str = "",
        began: float = 0.0, took: float = 0.0, why: str = "",
    ) -> Event:  # fmt: skip
        start = self.start
        first = began or at
        if stage is None:
            stage = rules.stage_of(start, pid, first) if start.has(pid) else 0
        return Event(
            1, round((at - self.zero) * 1e9), start.id or "observed", stage,
            actor or roles.role(start, pid, at if kind == "exec" else first), pid, kind, name,
            args or {}, ret, errno or None, round(took * 1e9), why, {"observed": True},
        )  # fmt: skip


def _makes(call: Call) -> bool:
    """Return True for a call that the log of a start tells."""
    if call.name in ("clone", "clone3") and is_thread(call):
        return False
    if roles.is_work(call):
        return call.name != "prctl" or not call.args[0].startswith(_NO_PLACE)
    if call.name in _FOLDERS:
        path = next((string(arg) or "" for arg in call.args if arg.startswith('"')), "")
        return path.startswith(_CGROUPS)
    if call.name == "write":
        return seen(call.args[0])[1].startswith(_WRITTEN)
    return call.name == "ioctl" and call.args[1].startswith("SIOCS")


def _args(call: Call, name: str, files: dict[int, str]) -> dict[str, Any]:
    """Return a call's arguments as the log has them; the call as strace wrote it, if it cannot."""
    reader = table.CALLS.get(name)
    try:
        if call.name in ("mkdirat", "unlinkat"):
            found: dict[str, Any] = {"path": string(call.args[1])}
        elif name == "write":
            found = {"path": seen(call.args[0])[1], "data": string(call.args[1])}
        elif reader:
            found = reader(tuple(map(_readable, call.args)))
        else:
            raise ValueError(name)
    except (ValueError, LookupError, AttributeError, TypeError):
        return {"call": str(call)}
    if name == "mknodat":
        words = " ".join(call.args[1:])
        found["kind"] = next((kind for word, kind in _KINDS.items() if word in words), "?")
    if name in ("open_tree", "move_mount") and not found.get("path"):
        found["path"] = seen(call.args[0 if name == "open_tree" else 2])[1]
    if call.args and "path" in found and not str(found["path"]).startswith("/"):
        folder = seen(call.args[0])[1] if call.args[0][:1].isdigit() else ""
        found["path"] = f"{folder}/{found['path']}".rstrip("/") if folder else found["path"]
    return {key: _plain(value, files) for key, value in found.items()}


def _is_hidden(call: Call) -> bool:
    """Return True for bytes that went, and that strace could not read."""
    moved = call.name in ("read", "write") and (call.ret or 0) > 0
    return moved and bool(_POINTER.fullmatch(call.args[1]))


def _readable(text: str) -> str:
    """An argument without what strace has cut; NULL for a string that it could not read."""
    return "NULL" if _POINTER.fullmatch(text) else text.removesuffix("...")


def _plain(value: Any, files: dict[int, str]) -> Any:
    """A value as JSON has it; a path of an own descriptor is what that was opened as."""
    if isinstance(value, frozenset):
        return "|".join(sorted(value)) or "0"
    if isinstance(value, str):
        for beginning in _OWN_FILES:
            rest = value.removeprefix(beginning)
            number = whole(rest)
            if rest != value and number is not None:
                return files.get(number, value)
    return value
