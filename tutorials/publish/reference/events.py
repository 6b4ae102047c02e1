"""Writes the reference of the log's events from the source and the shipped recordings.

tutorials/reference/events.schema.json is JSON Schema (2020-12) of one line; events.md the same for
readers: every name, its arguments, which function writes it, and what it means. `make reference`.
"""

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import minirun as package
from minirun.core.handshake import Message
from minirun.faces import knowledge, recordings
from minirun.faces.show.log import recording
from minirun.faces.show.log.event import Event
from minirun.net import rtnetlink

FOLDER = Path(__file__).parents[2] / "reference"
SCHEMA, PAGE = FOLDER / "events.schema.json", FOLDER / "events.md"
SOURCE = Path(package.__file__).parent


@cache
def trees() -> dict[Path, ast.Module]:
    """The package's files, each parsed once."""
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


KINDS = {
    "logged": ("syscall", 0, 3), "logged_python": ("syscall", 0, 2), "Step": ("syscall", 0, 9),
    "emit": ("", 1, 2), "stage": ("begin", 2, 9), "send": ("message", 0, 9),
}  # fmt: skip
"""A function that writes events → their kind, which argument is the name, which has arguments."""
TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array",
         dict: "object", type(None): "null"}  # fmt: skip
MESSAGES = {value for key, value in vars(Message).items() if key.isupper()}
HEAD = """\
# Every event of the log

<!-- written from the source: change that, then `make reference` -->

The log has one JSON object in each line; [events.schema.json](events.schema.json) is its JSON
Schema. `minirun explain NAME` says more of each. Fields: `v` is 1; `t` CLOCK_MONOTONIC in ns; `id`
the container's; `stage` 0 (before and after) to 7; `actor` who did it, and `pid` its process on the
host; `kind`, `name` and `args` what; `ret` the result and `errno` its error's name; `dur` how long,
in ns; `why` one line for a reader. A line of `minirun observe` has `observed`, which is true.
"""


def calls(*names: str) -> list[ast.Call]:
    """Every call, anywhere in the package, of a function or method with one of these names."""
    return [call for name, call in _every_call() if name in names]


@cache
def _every_call() -> list[tuple[str, ast.Call]]:
    found = [n for tree in trees().values() for n in ast.walk(tree) if isinstance(n, ast.Call)]
    return [(getattr(n.func, "attr", getattr(n.func, "id", "")), n) for n in found]


def literals(name: str, position: int) -> set[str]:
    """The strings that stand at one position in the calls of a function."""
    args = [call.args[position] for call in calls(name) if len(call.args) > position]
    return {a.value for a in args if isinstance(a, ast.Constant) and isinstance(a.value, str)}


@cache
def emitted() -> set[str]:
    """All names that an event can have; of a Step's calls, those that the log tells."""
    said = literals("logged", 0) | literals("logged_python", 0) | literals("Step", 0)
    said |= literals("emit", 1) | literals("stage", 2) | MESSAGES | set(rtnetlink.NAMES.values())
    return said - {"dup3", "fchdir", "chdir", "close_range", "sched_setaffinity"}


@dataclass
class Named:
    """All that is known of the events of one name."""

    kinds: set[str] = field(default_factory=set)
    arguments: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Argument → its types in JSON, of the recordings."""
    whole: bool = True
    """False if the source does not tell all arguments: there may be others."""
    sources: set[str] = field(default_factory=set)
    """"core/kernel/mounts.py: mount"."""


def names() -> dict[str, Named]:
    """Return each name that the source can write, in alphabetical order."""
    found: dict[str, Named] = defaultdict(Named)
    for path, tree in trees().items():
        for function in ast.walk(tree):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                source = f"{path.relative_to(SOURCE)}: {function.name}"
                for call in ast.walk(function):
                    if isinstance(call, ast.Call):
                        _take(found, call, function, source)
    for message in MESSAGES:
        found[message].kinds.add("message")
        found[message].arguments["to"].add("string")
        found[message].sources.add("core/handshake.py: Message")
    for name in rtnetlink.NAMES.values():
        found[name].kinds.add("netlink")
        found[name].whole = False
        found[name].sources.add("net/rtnetlink.py: change")
    for name in recordings.OWN:
        for event in (e for each in recording.read(recordings.path(name)) for e in each.events):
            if event.kind != "gate" and event.name in found:
                _learn(found[event.name], event)
    return {name: found[name] for name in sorted(emitted() & found.keys())}


def _take(found: dict[str, Named], call: ast.Call, function: ast.AST, source: str) -> None:
    called = getattr(call.func, "attr", getattr(call.func, "id", ""))
    kind, at, arguments = KINDS.get(called, ("", 99, 99))
    if len(call.args) <= at or not isinstance(call.args[at], ast.Constant):
        return
    first = call.args[0]
    kind = kind or (str(first.value) if isinstance(first, ast.Constant) else "")
    name = found[str(call.args[at].value)]  # type: ignore[attr-defined]
    name.kinds |= {kind} - {""}
    name.sources.add(source)
    if len(call.args) > arguments:
        keys, whole = _keys(call.args[arguments], function)
        name.whole &= whole
        for key in keys:
            name.arguments[key]  # a defaultdict: its types are not known yet


def _keys(node: ast.expr, function: ast.AST) -> tuple[set[str], bool]:
    """Return the keys of a dictionary, and if these are all that the source tells.

    Of a variable, those that its function gives it.
    """
    if isinstance(node, ast.Dict):
        keys = {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}
        return keys, len(keys) == len(node.keys)
    if isinstance(node, (ast.BinOp, ast.IfExp)):
        ends = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.body, node.orelse)
        both = [_keys(each, function) for each in ends]
        return both[0][0] | both[1][0], both[0][1] and both[1][1]
    if not isinstance(node, ast.Name):
        return set(), False
    found: set[str] = set()
    whole = True
    given: list[Any] = [each for each in ast.walk(function) if _gives(each, node.id)]
    for each in given:
        for target in getattr(each, "targets", [getattr(each, "target", None)]):
            if isinstance(target, ast.Subscript):
                found |= {getattr(target.slice, "value", "")} - {""}
            elif each.value:
                keys, all_of_it = _keys(each.value, ast.Module([], []))
                found, whole = found | keys, whole and all_of_it
    return found, whole and bool(given)


def _gives(node: Any, variable: str) -> bool:
    """Return True for an assignment to a variable, or to a key of it."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return False
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return any(getattr(getattr(t, "value", t), "id", "") == variable for t in targets)


def _learn(named: Named, event: Event) -> None:
    named.kinds.add("begin" if event.kind == "end" else event.kind)
    for key, value in event.args.items():
        named.arguments[key].add(TYPES[type(value)])


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a line."""
    known = names()
    stages = {name for name, one in known.items() if one.kinds == {"begin"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An event of minirun's log",
        "type": "object",
        "required": [
            "v", "t", "id", "stage", "actor", "pid", "kind", "name", "args", "ret", "errno",
            "dur", "why",
        ],
        "properties": {
            "v": {"const": 1},
            "t": {"type": "integer", "description": "CLOCK_MONOTONIC, nanoseconds"},
            "id": {"type": "string", "description": "the container's id"},
            "stage": {"type": "integer", "minimum": 0, "maximum": 7},
            "actor": {"type": "string", "description": "runtime, init, hook, cli, ldconfig …"},
            "pid": {"type": "integer", "description": "on the host"},
            "kind": {
                "enum": ["begin", "end", "syscall", "netlink", "message", "exec", "note", "gate"]
            },
            "name": {"type": "string"},
            "args": {"type": "object"},
            "ret": {"type": ["integer", "null"]},
            "errno": {"type": ["string", "null"], "pattern": "^E[A-Z0-9]+$"},
            "dur": {"type": "integer", "description": "nanoseconds"},
            "why": {"type": "string"},
            "observed": {"const": True, "description": "inferred from strace: minirun observe"},
        },
        "allOf": [
            _condition(name, one) for name, one in known.items() if name not in stages
        ],
        "$defs": {"stages": {"enum": sorted(stages)}, "names": {"enum": sorted(known)}},
    }  # fmt: skip


def _condition(name: str, one: Named) -> dict[str, Any]:
    properties = {key: _type(types) for key, types in sorted(one.arguments.items())}
    return {
        "if": {"properties": {"name": {"const": name}, "observed": False}},
        "then": {
            "description": _title(name),
            "$comment": "; ".join(sorted(one.sources)),
            "properties": {
                "args": {"properties": properties, "additionalProperties": not one.whole}
            },
        },
    }


def _type(types: set[str]) -> dict[str, Any]:
    kinds = sorted(types)
    return {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else {}


def _title(name: str) -> str:
    topic = knowledge.event(name)
    return topic.title if topic else ""


def text() -> str:
    """Return events.md."""
    rows = ["| name | kind | arguments | written by | what it is |", "|---|---|---|---|---|"]
    for name, one in names().items():
        kinds = ", ".join("begin, end" if kind == "begin" else kind for kind in sorted(one.kinds))
        arguments = ", ".join(f"`{key}`" for key in sorted(one.arguments))
        arguments += "" if one.whole else ", …" if arguments else "…"
        sources = "; ".join(f"`{source}`" for source in sorted(one.sources))
        rows.append(f"| `{name}` | {kinds} | {arguments} | {sources} | {_title(name)} |")
    return HEAD + "\n" + "\n".join(rows) + "\n"
