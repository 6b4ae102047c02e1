"""What many system calls of one kind come to, as one row: 11 libraries, 5 nodes, 5 cgroup rules.

    mknodat /dev/nvidia0 c 195:0, …     2 nodes in /dev: nvidia0 c 195:0, nvidia1 c 195:1
    move_mount onto /usr/lib/… , …      11 libraries in /usr/lib/…: libcuda.so.550.163.01, …

A row stands where the last of its calls stood, and is told with the next milestone of its stage.
"""

from __future__ import annotations

from minirun.core.keeping.numbers import whole
from minirun.core.keeping.record import Record
from minirun.faces.show.log import event_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.show.log.event import Event

_GPUS = "/proc/driver/nvidia/gpus/"
HEADS = {
    "node": ("node", "nodes"),
    "device": ("device", "devices"),
    "mount": ("mount", "mounts"),
    "library": ("library", "libraries"),
    "program": ("program", "programs"),
    "file": ("file", "files"),
    "gpu": ("GPU in /proc/driver/nvidia", "GPUs in /proc/driver/nvidia"),
    "rule": ("cgroup rule", "cgroup rules"),
    "hidden": ("path hidden or read-only", "paths hidden or read-only"),
    "dropped": ("capability dropped", "capabilities dropped"),
}
"""How one of them is called, and several."""
_IN_ONE_FOLDER = ("library", "program", "node")
_NAMESPACES = {
    "NS": "mount", "UTS": "UTS", "IPC": "IPC", "PID": "PID", "NET": "network", "USER": "user",
    "CGROUP": "cgroup", "TIME": "time",
}  # fmt: skip
_MOST = 3
"""How many are named; the others are in the log."""


class Group(Record):
    """Calls of one kind, of one actor in one stage."""

    name: str
    actor: str
    stage: int
    t: int
    """When the last of them returned: CLOCK_MONOTONIC, ns."""
    dur: int
    """How long they took together, ns."""
    items: tuple[str, ...]
    folder: str
    calls: tuple[Event, ...]


def member_of(event: Event) -> tuple[str, str]:
    """Return the group that a call belongs to, and what it adds; "" for none."""
    path = str(event.args.get("path") or event.args.get("target") or "")
    if event.kind != "syscall" or event.errno:
        return "", ""
    if event.name == "mknodat":
        kind = event.args.get("kind")
        node = f"{path} {kind} {event.args.get('major')}:{event.args.get('minor')}"
        if kind not in ("c", "b"):  # runc makes its exec.fifo so: a FIFO is no device
            return "", ""
        return ("node", node) if event.actor == "cli" else ("device", path)
    if event.actor == "cli":
        return _of_gpus(event, path)
    if event.actor != "init":
        return "", ""
    if event.stage == 1 and event.name in ("mount", "move_mount"):
        is_new = event.args.get("fstype") not in (None, "overlay") or event.name == "move_mount"
        is_new |= _binds(event)
        return ("mount", path) if is_new else ("", "")
    if event.stage == 7 and event.name == "move_mount":
        return "hidden", path
    if event.stage == 7 and event.args.get("option") == "PR_CAPBSET_DROP":
        return "dropped", str(event.args.get("arg2"))
    return "", ""


def _binds(event: Event) -> bool:
    """Return True if mount(2) binds a path to another place, as runc does; minirun moves mounts."""
    flags = str(event.args.get("flags")).split("|")
    moved = event.args.get("source") not in ("", None, event.args.get("target"))
    return moved and "MS_BIND" in flags and "MS_REMOUNT" not in flags


def gpu_of(event: Event) -> str:
    """Return the number of the GPU whose node a call makes; "" for none.

    It is all that the log has of a GPU that came without stage 5: by CDI, or by --device.
    """
    path = str(event.args.get("path") or event.args.get("target"))
    folder, _, number = path.rpartition("/nvidia")
    return number if folder.endswith("/dev") and whole(number) is not None else ""


def _of_gpus(event: Event, path: str) -> tuple[str, str]:
    """Return the same of what stage 5 does."""
    if event.name == "write" and path.endswith("/devices.allow"):
        return "rule", str(event.args.get("data"))
    if event.name != "move_mount":
        return "", ""
    if path.startswith(_GPUS):
        return "gpu", path.removeprefix(_GPUS)
    if ".so" in path.rpartition("/")[2]:
        return "library", path
    return ("program" if "/bin/" in path else "file"), path


class Milestones:
    """Gathers the calls of a stage, until a row of that stage is shown."""

    def __init__(self) -> None:
        self.calls: dict[tuple[int, str, str, str], list[tuple[str, Event]]] = {}
        """Stage, actor, name and folder of a group → what each call adds, and the call."""

    def take(self, event: Event) -> None:
        """Take a call into its group, the last one of all now."""
        name, item = member_of(event)
        if name:
            folder = item.rpartition("/")[0] if name in _IN_ONE_FOLDER else ""
            key = (event.stage, event.actor, name, folder)
            gathered = self.calls.pop(key, [])
            gathered.append((item, event))
            self.calls[key] = gathered

    def before(self, event: Event) -> list[Group]:
        """Return the groups of this event's stage and actor, which end here."""
        keys = [key for key in self.calls if key[:2] == (event.stage, event.actor)]
        return [_group(key, self.calls.pop(key)) for key in keys]


def _group(key: tuple[int, str, str, str], calls: list[tuple[str, Event]]) -> Group:
    stage, actor, name, folder = key
    spent = sum(call.dur for _, call in calls)
    items = tuple(item for item, _ in calls)
    own = tuple(call for _, call in calls)
    if name == "dropped":  # runc drops each twice, before and after it changes the user
        items = tuple(dict.fromkeys(items))
    return Group(name, actor, stage, calls[-1][1].t, spent, items, folder, own)


def row(group: Group, start: int, now: int) -> event_row.Row:
    """Return a group as a row; times as in :func:`minirun.faces.show.log.event_row.row`."""
    count = len(group.items)
    what = f"{count} {HEADS[group.name][count > 1]}"
    named = sorted(group.items, key=_is_usual)[:_MOST]
    if group.name in _IN_ONE_FOLDER:
        what += f" in {group.folder}"
        named = [item.rpartition("/")[2] for item in named]
    if group.name != "dropped":  # their numbers say nothing
        what += f": {', '.join(named)}" + (", …" if count > _MOST else "")
    time, took = f"{max(0, now - start) / 1e6:.2f}ms", event_row.duration(group.dur)
    return event_row.Row("syscall", time, str(group.stage), group.actor, what, "", took, "")


def _is_usual(item: str) -> bool:
    """Return False for what a reader looks for: it is named first."""
    path = item.split(" ")[0]
    is_gpu = path.startswith("/dev/nvidia") and path[-1].isdigit()
    return not (is_gpu or "/libcuda.so" in path or path.endswith("/nvidia-smi"))


def of_one(event: Event) -> str:
    """Return a call that is a milestone by itself in a reader's words; "" if the log's will do."""
    if layers := layers_of(event):
        return f"mount overlay: {layers} of the image, one to write on"
    chosen = event.args.get("gpus")
    if event.name == "gpus chosen" and isinstance(chosen, (list, tuple)):
        names = f": {', '.join(map(str, chosen))}" if chosen else ""
        return f"{len(chosen)} of {event.args.get('of')} GPUs{names}"
    if event.name == "environment":
        return f"environment: {', '.join(f'{key}={value}' for key, value in event.args.items())}"
    if event.name == "bpf":
        return "cgroup rules: an eBPF program is attached"
    if left := capabilities_left(event):
        return f"capset: {left}"
    return ""


def layers_of(event: Event) -> str:
    """Return "3 layers" for the mount of an overlay; "" for another call."""
    _, given, options = str(event.args.get("data")).partition("lowerdir=")
    if event.name != "mount" or not given:
        return ""
    count = options.partition(",")[0].count(":") + 1
    return "1 layer" if count == 1 else f"{count} layers"


def capabilities_left(event: Event) -> str:
    """Return "14 capabilities left" for capset(2); "" for another call."""
    try:
        left = bin(int(str(event.args.get("effective")), 16)).count("1")
    except ValueError:
        return ""  # a recording may say anything
    return f"{left} capabilities left" if event.name == "capset" else ""


def new_namespaces(event: Event) -> list[str]:
    """Return the names of what is new for init, by the flags of its birth."""
    flags = str(event.args.get("flags", ""))
    return [name for flag, name in _NAMESPACES.items() if f"CLONE_NEW{flag}" in flags.split("|")]


def namespaces(event: Event) -> str:
    """Return the same as one line; the event's own reason if there is none."""
    names = new_namespaces(event)
    return f"new namespaces: {', '.join(names)}" if names else event.why
