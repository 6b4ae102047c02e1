"""What the runtime and init are made of at a stop, side by side, in a few lines."""

from typing import Any

from minirun.inspect.snapshot import ProcessFacts, Snapshot
from minirun.show.text import event_row

_ROWS = 5


def sides(
    taken: Snapshot, words: dict[str, Any], width: int, unicode: bool
) -> list[list[tuple[str, str]]]:
    """Return the head and five lines; the runtime on the left, init on the right."""
    half = width // 2
    left, right = _runtime(taken, words), _init(taken, words, half - 3)
    dash = "─" if unicode else "-"
    heads = [event_row.padded(f"{dash * 2} {name} ", 0) for name in ("runtime", "init")]
    heads = [head + dash * (half - len(head)) for head in heads]
    found = [[("runtime", heads[0]), ("init", heads[1] + dash * (width - 2 * half))]]
    blank = [""] * _ROWS
    for one, other in zip((left + blank)[:_ROWS], (right + blank)[:_ROWS], strict=True):
        cells = [
            event_row.fit(event_row.clean(f"  {cell}", unicode), half - 1, unicode)
            for cell in (one, other)
        ]
        found.append([("", event_row.padded(cells[0], half)), ("", cells[1])])
    return found


def _runtime(taken: Snapshot, words: dict[str, Any]) -> list[str]:
    facts = taken["processes"].get("runtime")
    found = [_who(facts, words), _rights(facts, words), words["host"]]
    if child := taken["processes"].get("hook"):
        found.append(words["child"].format(pid=child["pid"], name=child["name"]))
    return found


def _init(taken: Snapshot, words: dict[str, Any], room: int) -> list[str]:
    facts = taken["processes"].get("init")
    if not facts:
        return [words["unborn"]]
    host = taken["host_namespaces"]
    own = [name for name, inode in taken["namespaces"].items() if host.get(name) != inode]
    namespaces = words["own"].format(names=" ".join(own)) if own else words["shared"]
    if event_row.display_width(namespaces) > room:
        short = " ".join(own).replace("network", "net")
        namespaces = words["few"].format(names=short)
    hosts = sum(line.startswith("host:") for line in taken["mounts"])
    counts = {"own": len(taken["mounts"]) - hosts, "host": hosts}
    nodes = sum(" c " in line or " b " in line for line in taken["files"])
    mounts = words["both" if hosts else "mounts"].format(**counts)
    devices = words["devices"].format(nodes=nodes, rules=len(taken["devices"]))
    return [_who(facts, words), _rights(facts, words), namespaces, mounts, devices]


def _who(facts: ProcessFacts | None, words: dict[str, Any]) -> str:
    if not facts:
        return str(words["gone"])
    return str(words["process"].format(pid=facts["pid"], name=facts["name"]))


def _rights(facts: ProcessFacts | None, words: dict[str, Any]) -> str:
    if not facts:
        return ""
    count = int(facts["capabilities"], 16).bit_count()
    found = [words["capabilities"].format(count=count)]
    if facts.get("seccomp", "0") == "2":  # SECCOMP_MODE_FILTER: proc_pid_status(5)
        found.append(words["filter"])
    if facts.get("no_new_privs"):
        found.append(words["privileges"])
    return ", ".join(found)
