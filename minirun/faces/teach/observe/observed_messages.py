"""What processes said to each other, through pipes, socket pairs and FIFOs: strace -yy tells which.

A message is what one write sends; the process that reads its first byte has received it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from minirun.faces.teach.observe.process_tree import Process
from minirun.faces.teach.strace import Call, seen, string

_WRITES = ("write", "sendto", "sendmsg")
_READS = ("read", "recvfrom", "recvmsg")
_PAIR = re.compile(r"UNIX[A-Z-]*:\[(\d+)->(\d+)[\],]")
_PIPE = re.compile(r"pipe:\[\d+\]")
_FIFO = re.compile(r".*\.fifo")
"""runc's, crun's and minirun's names of the FIFOs that they make."""
_WORD = re.compile(r"([A-Z][A-Z_]{3,})(?=\s|$)")


@dataclass(frozen=True)
class ObservedMessage:
    """What one process said to another."""

    call: Call
    sender: int
    receiver: int
    """It may have come too late to be read; 0: what read it is not known."""
    read: float
    """When it was received: seconds since the epoch; 0.0: it was not."""
    channel: str
    text: str
    """What was said, as far as strace has it."""

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object in it; empty if it is none."""
        try:
            found = json.loads(self.text)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def arrived(self) -> float:
        """When it was there: a reader that waits may go on before the writer does."""
        return min(self.read, self.call.time) if self.read else self.call.time

    @property
    def is_state(self) -> bool:
        """True if it is a container's state, as hooks get it: runtime-spec, runtime.md, State."""
        return {"ociVersion", "id", "status"} <= self.document.keys()

    @property
    def is_log(self) -> bool:
        """True if it is a line of minirun's own log, which a process hands to another to write."""
        return {"v", "t", "actor", "kind"} <= self.document.keys()

    @property
    def name(self) -> str:
        """A name: its "type", its first word, JSON, or how large it is: "8-bytes"."""
        if self.is_state:
            return "STATE"
        kind = self.document.get("type")
        if isinstance(kind, str):
            return kind
        if word := _WORD.match(self.text):
            return word[1]
        return "JSON" if self.document else _count(self.call.ret or 0)


def _count(size: int) -> str:
    return f"{size}-byte{'s' * (size != 1)}"


@dataclass
class _Part:
    call: Call
    sender: int
    text: str
    start: int
    """How many bytes went before it on its channel; -1: it was not sent."""


def read(processes: dict[int, Process]) -> list[ObservedMessage]:
    """Return all messages between two processes, in the order in which they were sent."""
    written: dict[str, list[_Part]] = defaultdict(list)
    sent: dict[str, int] = defaultdict(int)
    readers: dict[str, list[tuple[Call, int, int]]] = defaultdict(list)
    taken: dict[str, int] = defaultdict(int)
    calls = [(call, pid) for pid, process in processes.items() for call in process.calls]
    for call, pid in sorted(calls, key=lambda pair: pair[0].time):
        refused = call.errno == "EPIPE"  # the reader has gone: it was said all the same
        looked = any("MSG_PEEK" in word for word in call.args)
        if not call.args or looked or not (refused or (call.ret and call.ret > 0)):
            continue
        what = seen(call.args[0])[1] if call.name in (*_WRITES, *_READS) else ""
        if call.name in _WRITES and (channel := _channel(what, to_write=True)):
            start = -1 if refused else sent[channel]
            written[channel].append(_Part(call, pid, _text(call), start))
            sent[channel] += 0 if refused else call.ret or 0
        elif call.name in _READS and (channel := _channel(what, to_write=False)):
            readers[channel].append((call, pid, taken[channel]))
            taken[channel] += call.ret or 0
    found = []
    for channel, parts in written.items():
        for part in parts:
            receiver, when = _receiver(part.start, readers.get(channel, []))
            if receiver != part.sender:
                found.append(
                    ObservedMessage(part.call, part.sender, receiver, when, channel, part.text)
                )
    return sorted(found, key=lambda message: message.call.time)


def _receiver(start: int, reads: list[tuple[Call, int, int]]) -> tuple[int, float]:
    for call, pid, first in reads:
        if first <= start < first + (call.ret or 0):
            return pid, call.time
    return reads[-1][1] if reads else 0, 0.0  # it came too late


def _channel(what: str, *, to_write: bool) -> str:
    """Return a name that both ends have; "" for what is no channel."""
    if pair := _PAIR.match(what):
        return f"{pair[1]}->{pair[2]}" if to_write else f"{pair[2]}->{pair[1]}"
    if _PIPE.fullmatch(what):
        return what
    if _FIFO.fullmatch(what):  # seen from another root it may have fewer folders
        return "/".join(what.rsplit("/", 2)[1:])
    return ""


def _text(call: Call) -> str:
    try:
        return string(call.args[1]) or ""
    except (ValueError, IndexError):
        return ""
