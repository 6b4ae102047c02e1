"""One event as one row, and a row as one plain line of columns.

    1 runtime  clone() makes the container's init; OverlayFS its root filesystem
        0.41ms 1 runtime clone3 CLONE_NEWNS|NEWUTS|NEWIPC|NEWPID|PIDFD    = 4242   371µs
        2.02ms 1 init    mount proc on /proc MS_NOSUID|NODEV|NOEXEC           ok    29µs

Time since the first event, stage, actor, what was done, what came of it, how long it took.

Part of what an event says (paths, names, arguments) was chosen by the image, and the line may go
to a terminal: whatever is not printable is shown as an escape, \\x1b, and never sent as it is.
"""

from __future__ import annotations

from minirun.common import screen
from minirun.core.keeping.record import Record
from minirun.core.keeping.visible import clean as clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.show.log.event import Event

STAGES = {
    1: "clone() makes the container's init; OverlayFS its root filesystem",
    2: "asks, through a named FIFO, for the prestart hooks to be run; waits",
    3: "runs each prestart hook of config.json",
    4: "turns OCI spec and environment into nvidia-container-cli's arguments",
    5: "puts the GPUs in: nodes, driver libraries and programs, cgroup rules",
    6: "answers through the FIFO: hooks done",
    7: "pivot_root() into the container's root, drops privileges, exec()",
}
"""Figure 3, the seven stages: what happens in each stage; who does it stands in the event."""
ELSEWHERE = {
    1: "makes the container's init, which makes its root filesystem",
    2: "asks for the prestart hooks to be run; waits",
    6: "answers: hooks done",
}
"""The same where it is not as in minirun: of another runtime's start that was observed."""


def stages(*, observed: bool) -> dict[int, str]:
    """Return what happens in each stage: in minirun, or in another runtime that was observed."""
    return STAGES | ELSEWHERE if observed else STAGES


_BOLD = ("RUN_HOOKS", "HOOKS_DONE", "procHooks", "procResume", "procHooksDone")
"""The two messages that Figure 3 draws, and the same two in runc (libcontainer/sync.go), whose
answer has another name from 1.2 on. Every other one only keeps the processes in step."""
_THIN = ("clone3", "clone", "ERROR")
"""What has a name in a picture too: init's birth, and the end of a start that fails."""

_ROOM = 100
"""Columns of an event in a sentence: an overlay's options have no end."""
_LONGEST_HEAD = 4096
"""How many characters are looked at, beyond those that have room, for what may be left out."""
_ARGUMENTS = {
    "clone3": "{flags}",
    "unshare": "{flags}",
    "setns": "{nstype} {path}",
    "mount": "{source} on {at} {fstype} {flags} {data}",
    "umount2": "{target} {flags}",
    "pivot_root": "{new_root} {put_old}",
    "chroot": "{path}",
    "open_tree": "{at} {flags}",
    "move_mount": "onto {path}",
    "mount_setattr": "{set}",
    "fsopen": "{fstype}",
    "fsconfig": "{key} {value}",
    "fsmount": "{attributes}",
    "mknodat": "{path} {kind} {major}:{minor}",
    "mkfifo": "{path}",
    "symlinkat": "{path} -> {target}",
    "prctl": "{option} {name} {arg2}",
    "sethostname": "{name}",
    "setgroups": "{groups}",
    "setgid": "{gid}",
    "setuid": "{uid}",
    "ioctl": "{request} {name}",
    "mkdir": "{path}",
    "rmdir": "{path}",
    "write": "{path} {data}",
    "execve": "{at} {argv}",
    "bpf": "{cmd} {prog_name} {attach_type}",
    "seccomp": "{instructions} instructions {flags}",
    "RTM_NEWLINK": "{ifname}{link} {kind} {state} {ifalias}",
    "RTM_DELLINK": "{link}",
    "RTM_NEWADDR": "{address}/{prefixlen} on {link}",
    "RTM_NEWROUTE": "{dst} via {gateway}",
    "nft": "",
    "network": "{interface} {address} on {bridge} {ports}",
    "sysctl": "{name} = {value}",
    "snapshot": "{at}",
    "pull image": "{image}",
    **dict.fromkeys(
        ("pull layer", "layer exists", "layer verified", "layer unpacked"), "{layer} {bytes} bytes"
    ),
    "image pulled": "{image} {layers} layers",
    "pull failed": "{image} {error}",
}
"""What matters of the arguments of a call; other calls show all of them as key=value."""


class Row(Record):
    """An event, cut into columns. `kind` is the event's; `to`, the actor that it reaches:
    a message's receiver, and init where it is born."""

    kind: str
    time: str
    stage: str
    actor: str
    what: str
    result: str
    took: str
    why: str
    to: str = ""


class _Words(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return ""


def duration(nanoseconds: int) -> str:
    """Return a duration in at most 7 characters: 412µs, 3.2ms, 4.1s."""
    if nanoseconds < 1_000_000:
        return f"{nanoseconds // 1000}µs"
    if nanoseconds < 1_000_000_000:
        return f"{nanoseconds / 1e6:.1f}ms"
    return f"{nanoseconds / 1e9:.1f}s"


def row(event: Event, start: int = 0, now: int = 0) -> Row:
    """Cut `event` into columns. In nanoseconds: `start` is the time of the first event, `now` that
    at which this one is to be shown, if it is another than its own."""
    kind, stage = event.kind, event.stage
    time = f"{max(0, (now or event.t) - start) / 1e6:.2f}ms"
    took = duration(event.dur) if event.dur else ""
    what, result = f"{event.name} {_arguments(event)}".strip(), _result(event)
    if kind == "begin":
        what = stages(observed=event.observed).get(stage, what)
    elif kind == "end":
        error = event.args.get("error", "")
        what = f"failed: {error}" if event.ret else "done"
    elif kind == "gate":
        what = f"gate {what}"
    to = str(event.args.get("to", "")) if kind == "message" else ""
    return Row(kind, time, str(stage), event.actor, what, result, took, event.why, to)


def weight(arrow: str) -> str:
    """Return how the arrow of a message, or of a birth, is drawn: bold, dim, or "" as usual."""
    return "bold" if arrow in _BOLD else "" if arrow in _THIN else "dim"


def is_named(arrow: str) -> bool:
    """Return True if an arrow's name stands in a picture; the others are bookkeeping."""
    return weight(arrow) != "dim"


def in_words(event: Event, room: int = _ROOM) -> str:
    """Return an event with its arguments and what came of it, in at most `room` columns.

    "mknodat /dev/nvidia0 c 195:0: ok"
    """
    shown = row(event)
    outcome = f": {shown.result.removeprefix('= ')}" if shown.result else ""
    return fit(shown.what, room - screen.display_width(outcome)) + outcome


def place(at: str, stage: int, after: str) -> str:
    """Return where a run is held, in words: at a boundary, "5:begin"; else after an event."""
    number, _, edge = at.partition(":")
    if not edge:
        return f"after {after}, stage {stage}"
    when = "before" if edge == "begin" else "after"
    return f"{when} stage {number}: {STAGES[int(number)]}"


def simulated(event: Event) -> bool:
    """Return True if `event` speaks of the simulated driver: by a word, or a path."""
    texts = [event.why, *event.args.values()]
    found = [text for text in texts if isinstance(text, str)]
    return any("SIMULATED" in text or "/drivers/simulated-" in text for text in found)


def _result(event: Event) -> str:
    if event.errno:
        return event.errno
    if event.kind == "end":
        return "FAILED" if event.ret else "ok"
    if event.kind not in ("syscall", "netlink") or event.ret is None:
        return ""
    return f"= {event.ret}" if event.ret else "ok"


def _arguments(event: Event) -> str:
    """Return what matters of the event's arguments."""
    name, args = event.name, event.args
    words = _Words({key: _word(value) for key, value in args.items()})
    words["at"] = words["path"] or words["target"] or words["at"]
    if name == "open_tree":  # its path is empty if its descriptor says all
        words["at"] = words["source"] or words["path"]
    if words["fstype"] == words["source"]:
        words["fstype"] = ""
    form = _ARGUMENTS.get(name)
    if form:
        return " ".join(form.format_map(words).split())
    if event.kind == "message":
        return f"to {words['to']}" if words["to"] else ""
    return " ".join(f"{key}={words[key] or 0}" for key in args if words[key] or args[key] == "0")


def _word(value: object) -> str:
    if value is None or value == "0":
        return ""
    if isinstance(value, (list, tuple)):
        return " ".join(str(item) for item in value)
    return str(value)


def columns(
    row: Row, width: int = screen.WIDTH, *, unicode: bool = True, full: bool = False
) -> list[tuple[str, str]]:
    """Return a row as (column's name, text) pieces which, joined, fill at most `width` columns.

    `unicode` off: only ASCII. `full`: nothing is cut, and the reason is always there.
    """
    actor = clean(row.actor, unicode)
    if row.kind == "begin":
        head = [("stage", f"{row.stage} "), ("actor", f"{actor:<8} ")]
        return [*head, ("heading", fit(clean(row.what, unicode), width - 11, unicode, full))]
    left = [("time", f"{row.time:>10} "), ("stage", f"{row.stage} "), ("actor", f"{actor:<7} ")]
    result, took = clean(row.result, unicode), clean(row.took, unicode)
    right = f"{result:>7} {took:>7}" if result or took else ""
    used = sum(len(text) for _, text in left)
    room = width - used - (len(right) + 1 if right else 0)
    what, why = clean(row.what, unicode), clean(row.why, unicode)
    pieces = [("what", fit(what, room, unicode, full))]
    rest = room - screen.display_width(pieces[0][1]) - 4
    if why and (full or rest >= min(28, screen.display_width(why))):
        pieces.append(("why", "  # " + fit(why, rest, unicode, full)))
    if right:
        gap = room - sum(screen.display_width(text) for _, text in pieces)
        pieces.append(("result", " " * max(0, gap) + " " + right))
    return left + pieces


def cut(text: str, room: int, end: str) -> str:
    """Return `text` in at most `room` columns; if something is left out, it ends with `end`."""
    if screen.display_width(text) <= room:
        return text
    while text and screen.display_width(text) > room - len(end):
        text = text[:-1]
    return (text + end)[: max(0, room)]


def wrap(text: str, width: int, first: str = "", other: str | None = None) -> list[str]:
    """Return lines of at most `width` columns, broken at blanks; a longer word stays whole.

    They begin with `first`, and those after the first one with `other` (`first` by default).
    """
    lines = [first]
    for word in text.split():
        gap = "" if lines[-1] in (first, other) else " "
        if gap and screen.display_width(lines[-1] + gap + word) > width:
            lines.append(first if other is None else other)
            gap = ""
        lines[-1] += gap + word
    return lines


def fit(text: str, room: int, unicode: bool = True, full: bool = False) -> str:
    """Cut `text` to `room` columns: repeated prefixes of flags, heads of long paths, the end."""
    if full or screen.display_width(text) <= room:
        return text
    text = text[: room + _LONGEST_HEAD]
    words = [_flags(word) for word in text.split(" ")]
    for index in sorted(range(len(words)), key=lambda index: -len(words[index])):
        if screen.display_width(" ".join(words)) <= room:
            break
        if words[index].startswith("/") and len(words[index]) > 24:
            words[index] = dots(unicode) + _tail(words[index])
    return cut(" ".join(words), room, dots(unicode))


def dots(unicode: bool) -> str:
    """Return what stands for something that is left out."""
    return "…" if unicode else "..."


def _flags(word: str) -> str:
    """MS_NOSUID|NODEV for MS_NOSUID|MS_NODEV."""
    first, *others = word.split("|")
    prefix = first.rpartition("_")[0] + "_" if "_" in first else ""
    return "|".join([first, *(flag.removeprefix(prefix) for flag in others)])


def _tail(path: str) -> str:
    """Return the last names of a long path, about 20 characters of them."""
    slash = path.find("/", len(path) - 22)
    return path[slash:] if slash >= 0 else path[-20:]
