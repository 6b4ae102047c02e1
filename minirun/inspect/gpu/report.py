"""What a container was asked for, given, and has in force now: as data, and as text (`gpu why`)."""

import textwrap
from typing import Any

from minirun.cgroups import foreign
from minirun.cgroups.rules import DeviceRule, parse_rules
from minirun.core import state
from minirun.core.container import Container
from minirun.core.errors import MinirunError, StateError
from minirun.gpu import drivers
from minirun.inspect import edits_of
from minirun.inspect.gpu import observed, why
from minirun.show.columns import aligned

_WIDTH = 100


def document(container: Container) -> dict[str, Any]:
    """Return all of it as plain data with stable keys. Raises OSError, GPUError."""
    edits, config = edits_of(container.record), container.config
    request = why.nvidia_request(config) if why.mode(config, edits) in ("legacy", "hook") else None
    found: dict[str, Any] = {
        "id": container.id,
        "status": container.record["status"],
        "mode": why.mode(config, edits),
        "asked": [row._asdict() for row in why.request_sources(container.record, config, edits)],
        "devices": list(request.devices) if request else list(edits.get("cdi") or []),
        "capabilities": list(request.capabilities) if request else [],
        "requirements": list(request.requirements) if request else [],
        "given": edits,
        "now": None,
        "differences": [],
    }
    now = _now(container, edits)
    if now:
        rules = None if now.rules is None else [str(rule) for rule in now.rules]
        found["now"] = {
            "nodes": [node._asdict() for node in now.nodes],
            "rules": rules,
            "mounts": sum(path in now.mounted for path in now.expected),
        }
        rows = why.differences(edits, now, _own_rules(container), _host_driver(edits))
        found["differences"] = [row._asdict() for row in rows]
    return found


def _now(container: Container, edits: dict[str, Any]) -> observed.ObservedGpus | None:
    """Return what there is now; None where the container does not run."""
    if not container.record["pid"] or not state.is_alive(container.record["init"]):
        return None
    try:
        return observed.observe(container.record["pid"], edits, _rules(container))
    except (FileNotFoundError, ProcessLookupError):
        return None


def _rules(container: Container) -> list[DeviceRule] | None:
    try:
        return container.cgroup.effective_device_rules()
    except (OSError, MinirunError):
        return None


def _own_rules(container: Container) -> frozenset[str]:
    rows = container.config.resources.get("devices") or []
    return frozenset(map(str, parse_rules(rows)))


def _host_driver(edits: dict[str, Any]) -> str:
    """Return the version of the driver that is loaded now; empty for none, or a simulated one."""
    if not edits or edits.get("simulated"):
        return ""
    try:
        return drivers.inventory("nvidia", "").driver
    except (MinirunError, OSError):
        return ""


def repair(container: Container) -> int:
    """Give back the rules that are missing; return how many.

    Raises StateError, MinirunError, OSError.
    """
    edits = edits_of(container.record)
    now = _now(container, edits)
    if now is None:
        raise StateError(f"container {container.id!r} is not running", "its rules end with it")
    if now.rules is None:  # another program than minirun's is attached: put the tests before it
        rows = edits.get("deviceNodes", [])
        rules = [
            DeviceRule(True, n["type"], n["major"], n["minor"], n["permissions"]) for n in rows
        ]
        foreign.of_process(str(container.record["pid"])).allow_devices(rules)
        return len(rules)
    missing = why.missing_rules(now)
    if missing:
        container.open_log()
        container.cgroup.allow_devices(missing)
    return len(missing)


def lines(found: dict[str, Any]) -> list[str]:
    """Return the document as lines of text."""
    given, now = found["given"], found["now"]
    driver = f", driver {given['driver']}" if given.get("driver") else ""
    mark = ", SIMULATED" if given.get("simulated") else ""
    how = f", mode {found['mode']}" if found["mode"] else ""
    text = [f"container {found['id']}: {found['status']}{how}{driver}{mark}"]
    text += ["", "asked", *_asked(found), "", "given", *_given(found)]
    if now is None:
        return [*text, "", "now", "  it does not run: the kernel knows nothing of it"]
    text += ["", "now", *_present(now)]
    text += ["", "differences", *_differences(found)]
    return text


def _asked(found: dict[str, Any]) -> list[str]:
    text = []
    for row in found["asked"]:
        verdict = "" if row["counts"] else " (does not count)"
        text += _wrapped(f"{row['by']}: {row['what']}{verdict}")
    for key in ("devices", "capabilities", "requirements"):
        if found[key]:
            text += _wrapped(f"{key}: {', '.join(found[key])}")
    return text or ["  nothing: --gpus all asks for GPUs"]


def _given(found: dict[str, Any]) -> list[str]:
    given = found["given"]
    if not given:
        did = "another program did stages 4 and 5: what it gave is not recorded"
        return [f"  {did}" if found["mode"] == "hook" else "  nothing"]
    text = [f"  GPU {gpu['index']}: {gpu['uuid']} {gpu['model']}" for gpu in given["gpus"]]
    paths = [row["containerPath"] for row in given["mounts"]]
    libraries = sum(".so" in path.rpartition("/")[2] for path in paths)
    nodes = given["deviceNodes"]
    text.append(
        f"  {len(nodes)} device nodes, {libraries} libraries, {len(paths) - libraries} other mounts"
    )
    rules = [f"{n['type']} {n['major']}:{n['minor']} {n.get('permissions', 'rwm')}" for n in nodes]
    if rules:
        text += _wrapped(f"cgroup rules: {', '.join(rules)}")
    for entry in given["env"]:
        text += _wrapped(f"environment: {entry}")
    return text


def _present(now: dict[str, Any]) -> list[str]:
    rows = [
        (node["path"], node["found"] or "missing", f"cgroup: {_access(node['access'])}")
        for node in now["nodes"]
    ]
    text = [f"  {line}" for line in aligned(rows)]
    text.append(f"  {now['mounts']} mounts")
    known = {f"{n['kind']} {n['major']}:{n['minor']}" for n in now["nodes"]}
    if now["rules"] is None:
        text.append("  rules: the attached program is not minirun's and cannot be read")
    else:
        others = [rule for rule in now["rules"] if rule.rpartition(" ")[0] not in known]
        text += _wrapped(f"other rules: {', '.join(others) or 'none'}")
    return text


def _access(access: str | None) -> str:
    return "unknown" if access is None else access or "denied"


def _differences(found: dict[str, Any]) -> list[str]:
    text = []
    for row in found["differences"]:
        advice = row["advice"].replace(" ID ", f" {found['id']} ")
        text += _wrapped(row["what"])
        text += _wrapped(f"why: {row['reason']}", "      ")
        text += _wrapped(f"try: {advice}", "      ")
    return text or ["  none: all is as it was given"]


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}    ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
