"""Every line with which minirun says that something is wrong, read from its own source.

An error is the first argument of an error class (minirun.core.errors, and what is derived from it),
its hint the second; a warning is the argument of minirun.core.keeping.visible.warn, a remark that
of say. A reason is the text of a ValueError: what calls the function puts it behind a path and a
colon. They are found by reading the source, so a new one is here without further work. Parts that
are known only when it happens stand as {…}.

To parse all modules takes half a second. `make setup` keeps what was found beside what Python has
compiled; it is read from there while no module has changed.
"""

import ast
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from minirun.core import errors

WARNING, REMARK, REASON = "warning", "remark", "reason"
GAP = "{…}"
"""What stands in a text for a part that only the event itself knows."""
_SOURCE = Path(__file__).parents[2]
_KEPT = Path(__file__).parent / "__pycache__" / "said.json"
_WORKSHOP = "rootfs_tools"
_BASE, _REASON = "MinirunError", "ValueError"
_MOST = 16
"""Texts that one expression may become; of more, the first."""
_FUNCTIONS = {"warn": WARNING, "say": REMARK}
_CLASS = re.compile(r"^class (\w+)\((\w+)\)", re.MULTILINE)
Names = dict[str, list[ast.expr]]


@dataclass(frozen=True)
class MessageSource:
    """One place of the source that says something on standard error."""

    kind: str
    """The error's class, or one of the words above."""
    module: str
    """Where: "core/gates", "rootfs_tools/registry/errors"."""
    function: str
    texts: tuple[str, ...]
    """What it may say; none if it only passes on what another place, or program, has said."""
    hints: tuple[str, ...]


@cache
def said() -> tuple[MessageSource, ...]:
    """Return every such place, in the order of the files."""
    modules = _modules()
    with suppress(OSError, ValueError, TypeError, LookupError):
        kept = json.loads(_KEPT.read_text(encoding="utf-8"))
        if kept["state"] == _state(modules):
            return tuple(MessageSource(*row[:3], *map(tuple, row[3:])) for row in kept["said"])
    return tuple(_parsed(modules))


def keep() -> None:
    """Keep what said() finds, as compileall keeps what it compiles. Raises OSError."""
    state = _state(_modules())
    _KEPT.parent.mkdir(exist_ok=True)
    _KEPT.write_text(json.dumps({"state": state, "said": [*map(astuple, said())]}), "utf-8")


def _modules() -> dict[str, Path]:
    return {
        path.relative_to(place).with_suffix("").as_posix(): path
        for folder, place in _folders()
        for path in sorted(folder.rglob("*.py"))
    }


def _state(modules: dict[str, Path]) -> list[list[object]]:
    """Return what differs after a change of any module."""
    stats = ((name, path.stat()) for name, path in modules.items())
    return [[name, stat.st_mtime_ns, stat.st_size] for name, stat in stats]


def _parsed(modules: dict[str, Path]) -> list[MessageSource]:
    """Return every place of these modules that says something."""
    sources = {name: path.read_text(encoding="utf-8") for name, path in modules.items()}
    classes = _classes(sources.values())
    words = re.compile(rf"\b(?:{'|'.join(sorted(classes))}|visible)\b")
    found: list[MessageSource] = []
    for module, source in sources.items():
        if words.search(source):
            found += _in_module(ast.parse(source), module, classes)
    return found


def _folders() -> Iterator[tuple[Path, Path]]:
    """Yield the folder of each package, and what its modules' names are relative to."""
    yield _SOURCE, _SOURCE
    workshop = find_spec(_WORKSHOP)
    if workshop and workshop.origin:
        folder = Path(workshop.origin).parent
        yield folder, folder.parent


def _classes(sources: Iterable[str]) -> dict[str, str]:
    """Return the error classes, those of the core and all that are derived; each with its kind."""
    found = {
        name: name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.MinirunError)
    }
    found[_REASON] = REASON
    pairs = [pair for source in sources for pair in _CLASS.findall(source)]
    while new := {name: base for name, base in pairs if base in found and name not in found}:
        found |= {name: REASON if found[base] == REASON else name for name, base in new.items()}
    return found


def _in_module(tree: ast.Module, module: str, classes: dict[str, str]) -> Iterator[MessageSource]:
    inside: dict[ast.FunctionDef, list[ast.AST]] = {}
    imports: list[ast.ImportFrom] = []
    _sort(tree, [], inside, imports)
    outer = _assigned(tree.body)
    for function, nodes in inside.items():
        returned = [node.value for node in nodes if isinstance(node, ast.Return) and node.value]
        outer[f"{function.name}()"] = returned
    kinds = classes | _imported(imports)
    owners = _owners(tree, classes)
    seen: set[ast.Call] = set()
    for function, nodes in inside.items():
        names = outer | _assigned(nodes)
        for call in nodes:
            if not isinstance(call, ast.Call) or call in seen or not call.args:
                continue
            kind = owners.get(call) or kinds.get(_name(call))
            if kind:
                seen.add(call)
                texts = tuple(dict.fromkeys(_texts(call.args[0], names, deep=True)))
                hint = _hint(call) if kind in classes else None
                hints = _texts(hint, names) if hint else []
                yield MessageSource(kind, module, function.name, texts, tuple(hints))


def _sort(
    node: ast.AST,
    around: list[list[ast.AST]],
    inside: dict[ast.FunctionDef, list[ast.AST]],
    imports: list[ast.ImportFrom],
) -> None:
    """Find, in one walk, what lies inside of each function, and the imports."""
    if isinstance(node, ast.FunctionDef):
        around = [*around, inside.setdefault(node, [])]
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            imports.append(child)
        elif isinstance(child, (ast.Call, ast.Assign, ast.Return)):
            for nodes in around:
                nodes.append(child)
        if not isinstance(child, (ast.expr_context, ast.Name, ast.Constant, ast.operator)):
            _sort(child, around, inside, imports)


def _imported(imports: list[ast.ImportFrom]) -> dict[str, str]:
    """Return the names that a module has for warn and say of minirun.core.keeping.visible."""
    found: dict[str, str] = {}
    for node in imports:
        if node.module == "minirun.core.keeping.visible":
            names = [one for one in node.names if one.name in _FUNCTIONS]
            found |= {one.asname or one.name: _FUNCTIONS[one.name] for one in names}
        elif "visible" in {one.name for one in node.names}:
            found["warn"] = WARNING
    return found


def _owners(tree: ast.Module, classes: dict[str, str]) -> dict[ast.Call, str]:
    """Return the calls of super().__init__ in derived error classes, each with its kind."""
    found = {}
    for owner in tree.body:
        if isinstance(owner, ast.ClassDef) and owner.name in classes and owner.name != _BASE:
            for call in ast.walk(owner):
                if isinstance(call, ast.Call) and _name(call) == "__init__":
                    found[call] = classes[owner.name]
    return found


def _hint(call: ast.Call) -> ast.expr | None:
    """Return the expression that an error class gets as its hint."""
    if len(call.args) > 1:
        return call.args[1]
    return next((word.value for word in call.keywords if word.arg == "hint"), None)


def _name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _assigned(nodes: Iterable[ast.AST]) -> Names:
    """Return name → what is assigned to it, one expression for each assignment."""
    found: Names = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
    return found


def _texts(node: ast.expr, names: Names, depth: int = 3, *, deep: bool = False) -> list[str]:
    """Return the texts that an expression may become; none where it is made of other things.

    With `deep` the variables in a text are replaced by what they may be, where that is known.
    """
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) and node.value else []
    if isinstance(node, ast.JoinedStr):
        parts = [_part(part, names, depth if deep else 0) for part in node.values]
        return ["".join(each) for each in itertools.islice(itertools.product(*parts), _MOST)]
    if isinstance(node, ast.IfExp):
        both = (node.body, node.orelse)
        return [text for one in both for text in _texts(one, names, depth, deep=deep)]
    if isinstance(node, ast.BoolOp):
        return [text for one in node.values for text in _texts(one, names, depth, deep=deep)]
    if isinstance(node, (ast.Name, ast.Call)) and depth:
        key = node.id if isinstance(node, ast.Name) else f"{_name(node)}()"
        values = names.get(key, [])
        return [text for one in values for text in _texts(one, names, depth - 1, deep=deep)]
    return []


def _part(part: ast.expr, names: Names, depth: int) -> list[str]:
    """Return what a part of an f-string may be, as far as it is known."""
    if isinstance(part, ast.Constant):
        return [str(part.value)]
    value = part.value if isinstance(part, ast.FormattedValue) else part
    if not (depth and isinstance(value, ast.Name) and value.id in names):
        return [GAP]
    known = [_texts(one, names, depth - 1, deep=True) for one in names[value.id]]
    found = [text for texts in known for text in texts]
    return found if all(known) else [*found, GAP]
