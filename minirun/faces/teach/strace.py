"""Reads what `strace -f -ttt -o FILE` has written: one record per system call.

    4242  1700000000.123456 mkdirat(AT_FDCWD, "/x", 0700) = -1 EEXIST (File exists)
    4243  1700000000.123460 clone3({flags=CLONE_PIDFD, …} <unfinished ...>
    4243  1700000000.123470 <... clone3 resumed> => {pidfd=[7]}, 88) = 4244
    4242  1700000000.123480 +++ exited with 0 +++

strace(1), "Return value", "-f": if another process's call comes in between, a call is cut in
two. With -yy each descriptor says what it is, `3</x>`, `4<pipe:[77]>`; with -T each call how long
it took, `= 0 <0.000012>`. Simplified: threads count as processes, of which minirun has one each.
"""

from __future__ import annotations

import codecs
import re
import signal
from collections.abc import Iterable
from typing import NamedTuple

from minirun.core.errors import SIGNALLED

_LINE = re.compile(r"(\d+) +(\d+\.\d+) (.*)", re.DOTALL)
_CALL = re.compile(r"(\w+)\((.*)\) += (\?|-?\d+|0x[0-9a-f]+)(.*)", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_UNFINISHED = " <unfinished ...>"
_ENDED = re.compile(r"(\d+) +[\d.]+ \+\+\+ (?:exited with (\d+)|killed by (\w+)).* \+\+\+")
_ERRNO = re.compile(r" (E[A-Z0-9]+) \(")
_TRANSLATED = re.compile(r" /\* (\d+) in strace's PID NS \*/")
_TOOK = re.compile(r" <(\d+\.\d+)>$")
_SEEN = re.compile(r"(-?\d+|AT_FDCWD)<(.*)>(?:\(deleted\))?", re.DOTALL)
_SEEN_END = re.compile(r">(?:\(deleted\))?(?=[],})\s]|$)")
_IDS = ("setgroups", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid")
_I686 = {
    "recv": "recvfrom", "send": "sendto", "stat64": "stat", "lstat64": "lstat",
    "fstatat64": "newfstatat", **{f"{name}32": name for name in _IDS},
}  # fmt: skip
"""What libc calls on i686 → the name of the same call elsewhere. There the plain names are older
calls, for ids of 16 bits and for files below 2 GiB; and recv(2) is a call of its own."""
_OPEN, _CLOSE = "([{", ")]}"
_SHOWN = 400
"""Characters of a call's arguments that people are shown."""


class Call(NamedTuple):
    """One system call, as strace saw it."""

    pid: int
    """The process's number in strace's pid namespace: the host's."""
    time: float
    """When it was finished: seconds since the epoch."""
    name: str
    args: tuple[str, ...]
    """Each argument as strace prints it."""
    ret: int | None
    """The result; None if the call did not come back."""
    errno: str
    """ENOENT and the like; empty if the call succeeded."""
    child: int
    """For the result of a clone: the child's number in strace's pid namespace; else 0."""
    began: float = 0
    """When it was made: seconds since the epoch."""
    took: float = 0
    """Seconds, if strace was asked for them (-T)."""
    made: str = ""
    """What the descriptor is that it returned, if strace was asked for it (-y)."""

    def __str__(self) -> str:
        result = "?" if self.ret is None else f"{self.ret} {self.errno}".strip()
        args = ", ".join(self.args)
        return f"{self.name}({args if len(args) <= _SHOWN else args[:_SHOWN] + '…'}) = {result}"


def names(calls: Iterable[str]) -> list[str]:
    """Return the names of calls that strace has to be asked for, so that it shows `calls`."""
    wanted = [*calls]
    return [*wanted, *(name for name, usual in _I686.items() if usual in wanted)]


def parse(text: str) -> list[Call]:
    """Return the calls in the order in which they were finished."""
    calls: list[Call] = []
    begun: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if not match:
            continue
        pid, time, rest = match.groups()
        if rest.endswith(_UNFINISHED):
            begun[pid] = (time, rest.removesuffix(_UNFINISHED))
            continue
        resumed = _RESUMED.match(rest)
        first = time
        if resumed:
            first, start = begun.pop(pid, (time, ""))
            rest = start + resumed[2]
        call = _CALL.match(rest)
        if call and "ERESTART" not in call[4]:  # a signal came first: the kernel does it again
            calls.append(_record(int(pid), float(time), float(first), call))
    return calls


def endings(text: str) -> dict[int, int]:
    """Return process → exit status, 128 + n for signal n, of those that strace saw end."""
    found = {}
    for line in text.splitlines():
        match = _ENDED.match(line)
        if match:
            pid, status, name = match.groups()
            found[int(pid)] = int(status) if status else SIGNALLED + getattr(signal, name, 0)
    return found


def _record(pid: int, time: float, began: float, match: re.Match[str]) -> Call:
    name, args, ret, tail = match.groups()
    name = _I686.get(name, name)
    took = _TOOK.search(tail)
    seconds = float(took[1]) if took else 0
    returned = _SEEN.match(f"{ret}{tail.partition(' <')[0]}".strip())
    value = None if ret == "?" else number(ret)
    errno = _ERRNO.match(tail)
    translated = _TRANSLATED.match(tail)
    child = int(translated[1]) if translated else value or 0
    is_clone = name in ("clone", "clone3", "fork", "vfork")
    return Call(
        pid, time if time > began else time + seconds, name, tuple(split(args)), value,
        errno[1] if errno else "", max(child, 0) if is_clone else 0, began, seconds,
        returned[2] if returned else "",
    )  # fmt: skip


def split(text: str) -> list[str]:
    """Split at the commas that stand outside of strings, braces, brackets and parentheses."""
    parts, start, depth, at = [], 0, 0, 0
    while at < len(text):
        sign = text[at]
        if sign == '"':
            at += 1
            while text[at] != '"':
                at += 2 if text[at] == "\\" else 1
        elif sign == "<" and at and text[at - 1] in "0123456789D":  # what a descriptor is
            end = _SEEN_END.search(text, at)
            at = end.end() - 1 if end else at
        elif sign in _OPEN:
            depth += 1
        elif sign in _CLOSE:
            depth -= 1
        elif sign == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
        at += 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def string(text: str) -> str | None:
    """Return what a quoted string holds; None for NULL. Raises ValueError for a cut one."""
    if text == "NULL":
        return None
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        raise ValueError(f"not a whole string: {text[:80]}")
    raw, _ = codecs.escape_decode(text[1:-1].encode())
    return bytes(raw).decode(errors="surrogateescape")


def fields(text: str) -> dict[str, str]:
    """Return {a=1, b={…}} as a dictionary of texts; "a=1 => 2" counts as its first half."""
    inner = text.strip().removeprefix("{").removesuffix("}")
    pairs = (part.partition("=") for part in split(inner))
    return {name: value.split(" => ")[0] for name, _, value in pairs}


def strings(text: str) -> list[str]:
    """Return ["a", "b"] as a list."""
    return [string(part) or "" for part in split(text.strip()[1:-1])]


def number(text: str) -> int:
    """Return 15, 0x1f, AT_FDCWD or 0600 as a number."""
    plain = text.split(" /*")[0].partition("<")[0]
    if plain == "AT_FDCWD":
        return -100
    return int(plain, 8) if re.fullmatch(r"0\d+", plain) else int(plain, 0)


def seen(text: str) -> tuple[int, str]:
    """Return the number of a descriptor, and what it is: "" if strace was not asked for it."""
    match = _SEEN.fullmatch(text)
    return (number(match[1]), match[2]) if match else (number(text), "")


def flags(text: str) -> frozenset[str]:
    """Return A|B as a set; empty for 0."""
    words = text.split(" /*")[0].split("|")
    return frozenset(word for word in words if word != "0")
