"""What the runtime and init are made of at a stop, in at most five lines each."""

from typing import Any

from minirun.common import screen
from minirun.faces.inspect.snapshot import ProcessFacts, Snapshot


def runtime(taken: Snapshot, words: dict[str, Any]) -> list[str]:
    """Return the runtime's lines, and the child's that acts for it."""
    facts = taken["processes"].get("runtime")
    found = [_who(facts, words), _rights(facts, words), words["host"]]
    if child := taken["processes"].get("hook"):
        found.append(words["child"].format(pid=child["pid"], name=child["name"]))
    return found


def init(taken: Snapshot, words: dict[str, Any], room: int) -> list[str]:
    """Return init's lines; shorter ones if there are not `room` columns."""
    facts = taken["processes"].get("init")
    if not facts:
        return [words["unborn"]]
    host = taken["host_namespaces"]
    own = [name for name, inode in taken["namespaces"].items() if host.get(name) != inode]
    namespaces = words["own"].format(names=" ".join(own)) if own else words["shared"]
    if screen.display_width(namespaces) > room:
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
