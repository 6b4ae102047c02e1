"""What a container was asked for, given, and has in force now: as data, and as text (`gpu why`)."""

import textwrap
from typing import Any, NamedTuple

from minirun.cgroups import foreign
from minirun.cgroups.rules import parse_rules
from minirun.common.table import aligned
from minirun.core.container import Container
from minirun.core.errors import MinirunError, StateError
from minirun.core.keeping import state
from minirun.engines import holders
from minirun.faces.inspect import limits
from minirun.faces.inspect.given import edits_of, saved_edits
from minirun.faces.inspect.gpu import observed, why
from minirun.gpu import drivers
from minirun.gpu.edits import Edits
from minirun.gpu.steps import DeviceNode

_WIDTH = 100


class GpuReport(NamedTuple):
    """What a container was asked for, given, and has in force now."""

    id: str
    status: str
    mode: str
    asked: list[why.RequestSource]
    devices: list[str]
    capabilities: list[str]
    requirements: list[str]
    given: Edits
    now: observed.ObservedGpus | None
    """None if the container does not run."""
    differences: list[why.Difference]


def report(container: Container) -> GpuReport:
    """Return all of it. Raises OSError, GPUError."""
    record, config = container.record, container.config
    edits, cdi = _edits(container), list(saved_edits(record).get("cdi") or [])
    mode = why.mode(config, cdi) or why.mode_of_engine(config)
    now = _now(container, edits, config.environment.get("LD_LIBRARY_PATH", ""))
    asked = why.request_sources(record, config, cdi)
    if edits.gpus and not saved_edits(record):
        asked += [why.by_node(node) for node in edits.device_nodes]
    request = why.nvidia_request(config) if mode in ("legacy", "hook") else None
    compute = not request or "compute" in request.capabilities
    own = frozenset(map(str, parse_rules(config.resources.get("devices") or [])))
    return GpuReport(
        container.name, record.status, mode, asked,
        list(request.devices) if request else cdi,
        list(request.capabilities) if request else [],
        list(request.requirements) if request else [],
        edits, now,
        [*why.differences(edits, now, own, _host_driver(edits), needs_compute=compute),
         *why.of_variables(edits, config.environment, request)] if now else [],
    )  # fmt: skip


def document(found: GpuReport, given: dict[str, Any]) -> dict[str, Any]:
    """Return it as plain data with stable keys; `given` is edits.json."""
    now = found.now and {
        "nodes": [node._asdict() for node in found.now.nodes],
        "rules": None if found.now.rules is None else list(map(str, found.now.rules)),
        "mounts": found.now.mounts,
    }
    return {
        **found._asdict(),
        "asked": [row._asdict() for row in found.asked],
        "given": given,
        "now": now,
        "differences": [row._asdict() for row in found.differences],
    }


def _edits(container: Container) -> Edits:
    """Return what stage 5 put in; else the nodes and GPUs that came without it, by others."""
    edits = edits_of(container.record)
    if edits != Edits() or container.record.status == state.STOPPED:
        return edits
    there = {node.numbers: node for node in holders.nodes(container)}
    hosts = holders.hosts(container.settings.store) if there else []
    given = tuple(gpu for _, gpu in holders.gpus(hosts, frozenset(there)))
    if not given:
        return edits
    steps = tuple(
        DeviceNode(node.path, "c", *numbers, permissions=node.given)
        for numbers, node in there.items()
    )
    return Edits(steps=steps, gpus=given)


def _now(
    container: Container, edits: Edits, library_path: str = ""
) -> observed.ObservedGpus | None:
    """Return what there is now; None where the container does not run."""
    if not container.record.pid or not state.is_alive(container.record.init):
        return None
    try:
        rules = limits.rules(container)
        return observed.observe(container.record.pid, edits, rules, library_path)
    except (FileNotFoundError, ProcessLookupError):
        return None


def _host_driver(edits: Edits) -> str:
    """Return the version of the driver that is loaded now; empty for none, or a simulated one."""
    if not edits.driver or edits.simulated:
        return ""
    try:
        return drivers.inventory("nvidia", "").driver
    except (MinirunError, OSError):
        return ""


def repair(container: Container) -> int:
    """Give back the rules that are missing; return how many.

    Raises StateError, MinirunError, OSError.
    """
    edits = _edits(container)
    now = _now(container, edits)
    if now is None:
        raise StateError(f"container {container.name!r} is not running", "its rules end with it")
    if now.rules is None:  # another program than minirun's is attached: put the tests before it
        rules = edits.device_rules()
        foreign.of_process(str(container.record.pid)).allow_devices(rules)
        return len(rules)
    missing = why.missing_rules(now)
    if missing:
        container.open_log()
        container.cgroup.allow_devices(missing)
    return len(missing)


def lines(found: GpuReport) -> list[str]:
    """Return it as lines of text."""
    given, now = found.given, found.now
    driver = f", driver {given.driver}" if given.driver else ""
    mark = ", SIMULATED" if given.simulated else ""
    how = f", mode {found.mode}" if found.mode else ""
    text = [f"container {found.id}: {found.status}{how}{driver}{mark}"]
    text += ["", "asked", *_asked(found), "", "given", *_given(found)]
    if now is None:
        return [*text, "", "now", "  it does not run: the kernel knows nothing of it"]
    text += ["", "now", *_present(now)]
    text += ["", "differences", *_differences(found)]
    return text


def _asked(found: GpuReport) -> list[str]:
    text = []
    for row in found.asked:
        verdict = "" if row.counts else " (does not count)"
        text += _wrapped(f"{row.by}: {row.what}{verdict}")
    for key in ("devices", "capabilities", "requirements"):
        if values := getattr(found, key):
            text += _wrapped(f"{key}: {', '.join(values)}")
    return text or ["  nothing: --gpus all asks for GPUs"]


def _given(found: GpuReport) -> list[str]:
    given = found.given
    if given == Edits():
        did = "another program did stages 4 and 5: what it gave is not recorded"
        return [f"  {did}" if found.mode == "hook" else "  nothing"]
    text = [f"  GPU {gpu.name}: {gpu.uuid} {gpu.model}" for gpu in given.gpus]
    paths = [mount.path for mount in given.mounts]
    libraries = sum(".so" in path.rpartition("/")[2] for path in paths)
    nodes = given.device_nodes
    others = len(paths) - libraries
    text.append(f"  {len(nodes)} device nodes, {libraries} libraries, {others} other mounts")
    if nodes:
        text += _wrapped(f"cgroup rules: {', '.join(map(str, given.device_rules()))}")
    for entry in given.env:
        text += _wrapped(f"environment: {entry}")
    return text


def _present(now: observed.ObservedGpus) -> list[str]:
    rows = [(n.path, n.found or "missing", f"cgroup: {_access(n.access)}") for n in now.nodes]
    text = [f"  {line}" for line in aligned(rows)]
    text.append(f"  {now.mounts} mounts")
    known = {f"{node.kind} {node.major}:{node.minor}" for node in now.nodes}
    if now.rules is None:
        text.append("  rules: the attached program is not minirun's and cannot be read")
    else:
        rules = map(str, now.rules)
        others = [rule for rule in rules if rule.rpartition(" ")[0] not in known]
        text += _wrapped(f"other rules: {', '.join(others) or 'none'}")
    return text


def _access(access: str | None) -> str:
    return "unknown" if access is None else access or "denied"


def _differences(found: GpuReport) -> list[str]:
    text = []
    for row in found.differences:
        advice = row.advice.replace(" ID ", f" {found.id} ")
        text += _wrapped(row.what)
        text += _wrapped(f"why: {row.reason}", "      ")
        text += _wrapped(f"try: {advice}", "      ")
    return text or ["  none: all is as it was given"]


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}    ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
