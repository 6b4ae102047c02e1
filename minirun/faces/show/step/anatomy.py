"""What `--step` prints: a snapshot as a page, and why a step is taken."""

from __future__ import annotations

from minirun.common import screen
from minirun.core.keeping import places
from minirun.faces import knowledge
from minirun.faces.show.log import event_row
from minirun.faces.show.log.event import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.inspect.snapshot import ProcessFacts, Snapshot

_CLOSED = "(the same as the runtime's)"


def page(taken: Snapshot, width: int = screen.WIDTH) -> str:
    """Return a snapshot as a page for a terminal of `width` columns."""
    blocks = [
        ("namespaces of init", _namespaces(taken)),
        ("mounts of the container", _mounts(taken)),
        ("device rules of its cgroup", taken["devices"]),
        ("FIFOs between the two", _fifos(taken["processes"])),
        ("device nodes", [f for f in taken["files"] if " c " in f or " b " in f]),
    ]
    for who, facts in taken["processes"].items():
        blocks.append((f"{who}: process {facts['pid']} ({facts['name']})", _process(facts)))
    return "".join(_block(title, rows, width) for title, rows in blocks)


def _block(title: str, rows: list[str], width: int) -> str:
    shown = [f"  {event_row.clean(row)}"[:width] for row in rows] or ["  none"]
    return "\n".join([f"{title}:", *shown]) + "\n"


def _namespaces(taken: Snapshot) -> list[str]:
    host = taken.get("host_namespaces", {})
    return [
        f"{kind:<8} {inode}" + (f"  {_CLOSED}" if host.get(kind) == inode else "")
        for kind, inode in taken["namespaces"].items()
    ]


def _mounts(taken: Snapshot) -> list[str]:
    own = [mount for mount in taken["mounts"] if not mount.startswith("host:")]
    others = len(taken["mounts"]) - len(own)
    return own + ([f"and {others} of the host, until pivot_root"] if others else [])


def _fifos(processes: dict[str, ProcessFacts]) -> list[str]:
    """Return each FIFO with who holds it, and as which descriptor."""
    held: dict[str, list[str]] = {}
    for who, facts in processes.items():
        for line in facts["descriptors"]:
            number, _, path = line.partition(" ")
            if path.endswith(".fifo"):
                held.setdefault(path.rpartition("/")[2], []).append(f"{who} {number}")
    return [f"{name}: {', '.join(holders)}" for name, holders in sorted(held.items())]


def _process(facts: ProcessFacts) -> list[str]:
    log = [d.split(" ", 1)[1] for d in facts["descriptors"] if d.endswith(f"/{places.EVENTS}")]
    home = log[0].rpartition("/")[0] if log else "\0"
    return [
        f"capabilities {facts['capabilities']}"
        + (", no new privileges" if facts.get("no_new_privs") else ""),
        *(f"cgroup {line}" for line in facts.get("cgroup", [])),
        *(f"descriptor {line.replace(home, '…')}" for line in facts["descriptors"]),
    ]


def why(gate: Event, last: Event | None, language: str, width: int = screen.WIDTH) -> str:
    """Return what is known of the step at this gate, as lines of at most `width` columns.

    `last` is the event before the gate, None if there is none.
    """
    stage = knowledge.stage(gate.stage, language)
    event = knowledge.event(last.name, last.args, language) if last else None
    at_boundary = gate.name != "syscall"
    topics = [stage, event] if at_boundary else [event, stage]
    found = list(dict.fromkeys(_topic(topic, language, width) for topic in topics if topic))
    if last and last.why:
        found.insert(0, f"{last.name}: {event_row.clean(last.why)}\n")
    return "\n".join(found)


def _topic(topic: knowledge.Topic, language: str, width: int) -> str:
    rows = [topic.title, *event_row.wrap(topic.here, width, "  ")]
    labels = knowledge.words(language)["parts"]
    for part in ("man", "spec", "real"):
        if known := getattr(topic, part):
            rows += event_row.wrap(f"{labels[part]}: {known}", width, "  ", "    ")
    return "\n".join(rows) + "\n"
