"""The house's walls: which module may import which (PRINCIPLES.md), read from the source, nothing
imported.

core imports core alone, except the one call of stage 5; common the core; ring 1 these and itself;
ring 2 these, but no other room of it cli. That is the runtime. A shelf imports the runtime, of cli
the frame, and itself, docker/ also faces/; the runtime imports no shelf: tables name what it calls
of one. The workshop, rootfs-tools/, imports what it needs of all, and of cli the parser; minirun
names it in two tables of calls. No import stands in a function: core/lazy. What only a type checker
imports is not asked, except of the core, whose reader meets no other room, and of cli. And a class
name stands for one thing.
"""

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import minirun
import rootfs_tools

TOP = Path(minirun.__file__).parent
WORKSHOP = Path(rootfs_tools.__file__).parent
RINGS = {
    0: {"core", "common"},
    1: {"cgroups", "gpu", "oci", "image", "net"},
    2: {"running", "engines", "fast", "cli"},
    3: {"docker", "toolkit", "faces"},
    4: {"rootfs_tools"},
}
RING = {room: number for number, rooms in RINGS.items() for room in rooms}
FRONT = {"__init__", "__main__"}
"""The package's own front: it opens the runtime, and minirun.faces.api."""
RECORDS = {
    "minirun.cgroups.rules", "minirun.gpu.edits", "minirun.gpu.asked.request",
    "minirun.gpu.asked.select",
}  # fmt: skip
"""Modules of ring 1 that hold records and nothing else: other rooms of the ring may import them."""
PARSER = {
    "minirun.cli", "minirun.cli.flags", "minirun.cli.output", "minirun.cli.several",
    "minirun.cli.words",
}  # fmt: skip
"""Of cli, what the workshop's own commands are made of."""
FRAME = PARSER | {"minirun.cli.either"}
"""Of cli, what the shelves' commands are made of."""
OF_CLI = {"rootfs_tools": PARSER, **dict.fromkeys(RINGS[3], FRAME)}
"""Other rooms than cli → what they may import of it."""
TABLES = {
    "cli/__init__.py", "cli/completion.py", "cli/either.py", "cli/runc/events.py",
    "running/shelves.py", "gpu/vendors/discovery.py",
}  # fmt: skip
"""Where the runtime names a module of a shelf, to call it."""
SHELVES = RINGS[3]
RUNTIME = RINGS[0] | RINGS[1] | RINGS[2]
CALLS = {"cli/__init__.py", "image/workshop.py"}
"""Where minirun names the workshop, to call it."""
STAGE_5 = ("minirun.core.stages.s5_inject", "minirun.gpu.inject")
"""The one arrow from a stage into a ring: the figure's point is that stage 5 is done in-line."""


GPU_FLOORS = (
    {
        "inventory",
        "edits",
        "steps",
        "target",
        "owner",
        "driverroot",
        "trusted",
        "ldconfig",
        "apply",
    },
    {"asked"},
    {"nvidia/shared"},
    {"simulated"},
    {"cdi"},
    {"vendors"},
    {"drivers"},
    {"share"},
    {"nvidia/hook"},
    {"nvidia/cli"},
    {"nvidia/cli/program"},
    {"nvidia/specs"},
    {"inject"},
    {"asked/ways"},
)
"""The folders of gpu/, and its own files, from the ground up."""


class Arrow(NamedTuple):
    """One import: by which module, of which, in which function ("" for none)."""

    source: str
    target: str
    function: str
    typing: bool


def modules() -> dict[str, Path]:
    """Every module by its name."""
    found = {}
    for path in (*sorted(TOP.rglob("*.py")), *sorted(WORKSHOP.rglob("*.py"))):
        top = TOP if path.is_relative_to(TOP) else WORKSHOP
        parts = path.relative_to(top.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()
TOPS = {"minirun", "rootfs_tools"}


def arrows(name: str) -> Iterator[Arrow]:
    """Yield the imports of one module that lead to another one of minirun."""

    def walk(node: ast.AST, function: str, typing: bool) -> Iterator[Arrow]:
        for child in ast.iter_child_nodes(node):
            inner, unseen = function, typing
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = child.name
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                unseen = True
            for target in _targets(child):
                yield Arrow(name, target, function, typing)
            yield from walk(child, inner, unseen)

    yield from walk(ast.parse(MODULES[name].read_text()), "", False)


def _targets(node: ast.AST) -> set[str]:
    """Return the modules that one statement imports."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names if alias.name in MODULES}
    if not isinstance(node, ast.ImportFrom) or node.module not in MODULES:
        return set()
    full = {f"{node.module}.{alias.name}" for alias in node.names}
    return {target if target in MODULES else str(node.module) for target in full}


@functools.cache
def every_arrow() -> list[Arrow]:
    return [arrow for name in MODULES for arrow in arrows(name)]


def room(name: str) -> str:
    """Return the folder of a module, which is a package's for the workshop."""
    if name.split(".")[0] != "minirun":
        return name.split(".")[0]
    return name.split(".")[1] if "." in name else "__init__"


def is_allowed(arrow: Arrow) -> bool:
    """Return True if the rule allows an arrow, wherever in its file it stands."""
    source, target = room(arrow.source), room(arrow.target)
    if source == target or target == "__init__" or source in FRONT:
        return True
    if (arrow.source, arrow.target) == STAGE_5:
        return True
    if target == "cli":
        return arrow.target in OF_CLI.get(source, ())
    if source in SHELVES and target in SHELVES:
        return (source, target) == ("docker", "faces")
    inner, outer = RING[target], RING[source]
    if inner == outer == 0:
        return target == "core"
    if inner == outer == 1:
        return arrow.target in RECORDS
    return inner < outer or inner == outer == 2


def written(found: set[Arrow] | list[Arrow]) -> set[str]:
    return {f"{arrow.source} -> {arrow.target}" for arrow in found}


def gpu_place(name: str) -> str:
    """Return the folder of a module of gpu/; its own name if it lies in gpu/ itself."""
    path = MODULES[name].relative_to(TOP / "gpu")
    return path.stem if path.parent == Path() else path.parent.as_posix()


def test_gpus_flow_one_way() -> None:
    """No module of gpu/ imports one of a floor above it, not even for its types."""
    numbers = {place: number for number, places in enumerate(GPU_FLOORS) for place in places}
    fronts = {"minirun.gpu.nvidia"}  # it holds folders alone
    inside = {name for name in MODULES if name.startswith("minirun.gpu.")} - fronts
    assert {gpu_place(name) for name in inside} == numbers.keys()
    floors = {name: numbers[gpu_place(name)] for name in inside}
    up = {
        arrow for arrow in every_arrow()
        if arrow.source in floors and arrow.target in floors
        and floors[arrow.source] < floors[arrow.target]
    }  # fmt: skip
    assert written(up) == set()


def test_every_room_has_a_ring() -> None:
    assert {room(name) for name in MODULES} - FRONT <= RING.keys()


def test_walls() -> None:
    wrong = {
        arrow for arrow in every_arrow() if not is_allowed(arrow)
        and (not arrow.typing or room(arrow.source) == "core" or room(arrow.target) == "cli")
    }  # fmt: skip
    assert written(wrong) == set()


def test_no_name_of_the_frame_is_stale() -> None:
    """Each module of cli that a shelf or the workshop may import is imported by one."""
    used: dict[str, set[str]] = {}
    for arrow in every_arrow():
        if room(arrow.target) == "cli":
            used.setdefault(room(arrow.source), set()).add(arrow.target)
    assert sorted(FRAME - set().union(*(used[shelf] for shelf in SHELVES))) == []
    assert sorted(PARSER - used["rootfs_tools"]) == []


def test_minirun_calls_the_workshop_through_two_tables() -> None:
    """The launcher and the look-up of errors read its files; they import nothing of it."""
    naming = {
        path.relative_to(TOP).as_posix() for path in TOP.rglob("*.py")
        if re.search(r"\"rootfs_tools\b", path.read_text())
    }  # fmt: skip
    assert naming == CALLS | {"fast/launcher.py", "faces/knowledge/source.py"}


def test_the_runtime_names_the_shelves_in_tables() -> None:
    """What is not imported is called by its name: each place that does so is known."""
    name = re.compile(rf"[\"']minirun\.({'|'.join(sorted(SHELVES))})\.")
    naming = {
        path.relative_to(TOP).as_posix() for path in TOP.rglob("*.py")
        if path.relative_to(TOP).parts[0] not in SHELVES | {"__init__.py"}
        and name.search(path.read_text())
    }  # fmt: skip
    assert naming == TABLES


LATE = {"minirun.core.lazy", "minirun", "minirun.__main__"}
"""core/lazy is the one way to be late; the package's front imports what it is asked for."""
OPTIONAL = {
    "minirun.faces.api.course.lesson", "minirun.faces.api.course.tab", "minirun.faces.api.stream",
    "minirun.faces.doctor.machine",
}  # fmt: skip
"""What may be missing is tried where it is used: a notebook's packages, a browser, python-prctl."""


def late(tree: ast.Module) -> Iterator[str]:
    """Yield what imports in a function, or by name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = (
                each for each in ast.walk(node) if isinstance(each, ast.Import | ast.ImportFrom)
            )
            yield from map(ast.unparse, inner)
        elif isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in ("__import__", "import_module"):
                yield name


def test_one_way_to_be_late() -> None:
    """Each import stands at the top of its file; what few need is in a block `with lazy`."""
    found = {
        name: texts for name, path in MODULES.items()
        if name not in LATE | OPTIONAL and (texts := [*late(ast.parse(path.read_text()))])
    }  # fmt: skip
    assert found == {}
    for name in OPTIONAL:
        assert [*late(ast.parse(MODULES[name].read_text()))], f"{name} needs no exception"


def test_a_lazy_name_is_a_modules() -> None:
    """A name of what is in a module could not be put off: `from package import module` alone."""
    wrong = []
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.With) or ast.unparse(node.items[0]) != "lazy":
                continue
            for each in node.body:
                if isinstance(each, ast.ImportFrom) and str(each.module).partition(".")[0] in TOPS:
                    names = {f"{each.module}.{alias.name}" for alias in each.names}
                    wrong += [f"{module}: {name}" for name in names - MODULES.keys()]
    assert wrong == []


def test_no_circles() -> None:
    """No module needs itself, by whatever detour.

    Imports inside functions count too, and those for the type checker: where two modules know each
    other's types, neither can be read first.
    """
    below: dict[str, set[str]] = {name: set() for name in MODULES}
    for arrow in every_arrow():
        below[arrow.source].add(arrow.target)
    assert [" ".join(sorted(circle)) for circle in circles(below)] == []


def test_a_class_name_is_used_once() -> None:
    """So it says what it is outside of its own file. A name of a type, `Rows = …`, counts too."""
    places: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for name in type_names(ast.parse(path.read_text())):
            places.setdefault(name, []).append(module)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def type_names(tree: ast.Module) -> Iterator[str]:
    """Yield the classes of a module, also of its functions, and the types that it names."""
    yield from (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    below = [each for node in tree.body if isinstance(node, ast.If) for each in node.body]
    for node in (*tree.body, *below):
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            yield from (name for name in names if re.match("_*[A-Z].*[a-z]", name))


def circles(below: dict[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules in which each leads to each other (Tarjan's algorithm)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []
    counter = itertools.count()

    def visit(name: str) -> None:
        numbers[name] = lowest[name] = next(counter)
        stack.append(name)
        for other in below[name]:
            if other not in numbers:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], numbers[other])
        if lowest[name] == numbers[name]:
            place = stack.index(name)
            circle = set(stack[place:])
            del stack[place:]
            if len(circle) > 1 or name in below[name]:
                found.append(circle)

    for name in below:
        if name not in numbers:
            visit(name)
    return found


@pytest.mark.parametrize(
    "folder",
    [
        path.parent.relative_to(TOP).as_posix() for path in sorted(TOP.rglob("__init__.py"))
        if path.parent != TOP and path.relative_to(TOP).parts[0] != "core"
    ],
)  # fmt: skip
def test_a_room_says_what_its_files_hold(folder: str) -> None:
    """The core's own list is the next test's."""
    text = ast.get_docstring(ast.parse((TOP / folder / "__init__.py").read_text())) or ""
    named = set(re.findall(r"(?:^ *|[,;] )([a-z0-9_]+)(?:\.py|/)?(?=[,: ])", text, re.MULTILINE))
    files = {path.stem for path in (TOP / folder).glob("*.py")} - {"__init__"}
    folders = {path.parent.name for path in (TOP / folder).glob("*/__init__.py")}
    assert sorted((files | folders) - named) == []
    for block in text.split("\n\n"):
        rows = re.findall(r"^ *([a-z0-9_]+(?:, [a-z0-9_]+)*)(?:\.py|/)?  +", block, re.MULTILINE)
        first = {name for row in rows for name in row.split(", ")}
        assert first.isdisjoint(files | folders) or sorted(first - files - folders) == []


def listed(text: str) -> set[str]:
    """Return the modules that a docstring lists: the words before two spaces in indented lines."""
    rows = re.findall(r"^    ([a-z0-9_/]+(?:, [a-z0-9_/]+)*)  ", text, re.M)
    return {name for row in rows for name in row.split(", ")}


def test_the_core_says_in_which_order_it_is_read() -> None:
    """Its docstring lists its files, except the appendix, and the files outside that complete it.

    core/keeping lists its own.
    """
    paths = {name.removeprefix("minirun.").replace(".", "/") for name in MODULES}
    core = {path.removeprefix("core/") for path in paths if path.startswith("core/")}
    files = {path for path in core if (TOP / f"core/{path}.py").exists()}
    keeping = {path for path in files if path.startswith("keeping/")}
    plot = listed((TOP / "core/__init__.py").read_text())
    assert sorted(files - keeping - plot) == []
    assert sorted(plot - core - paths) == []
    appendix = listed((TOP / "core/keeping/__init__.py").read_text())
    assert {path.removeprefix("keeping/") for path in keeping} == appendix
