"""The page of one start lists the functions that run, in the order of their first call."""

import functools
import importlib
import re
from pathlib import Path

from minirun import core
from minirun.core import extras
from minirun.core.container import Extra
from minirun.fast import launcher
from required import installed, skip
from tutorials.publish.reference import one_start, start

ANEW = "the way of a start has changed: `make path` writes the page anew"
PLAIN, GPUS = "## A plain start", "## What two GPUs add"
RACING = "`_delete`"
"""Removes a link. The first may be the veth pair, or the bridge: the kernel may be quicker."""
VERSION_2, NETWORK = "## What cgroup version 2 replaces", "## What the default network adds"


def part(head: str) -> str:
    """Return the part of the page below a heading."""
    page = one_start.PAGE.read_text()
    return re.split(r"^## ", page[page.index(head) + len(head) :], maxsplit=1, flags=re.M)[0]


def listed(text: str) -> list[str]:
    """Return a text's headings, and the functions below them with their files, in order."""
    return [each.replace("¹", "") for each in re.findall(r"^### .*|^\| `.*?\]", text, re.M)]


def rows(text: str, mark: str = "¹?") -> set[tuple[str, str]]:
    """Return file and name of each function that a text lists."""
    return {
        (file, name) for name, file in re.findall(rf"^\| `(.*?)`{mark} \| \[`(.*?)`\]", text, re.M)
    }


def ran(*starts: start.Start) -> set[tuple[str, str]]:
    return {(each.file, each.name) for one in starts for each in one.functions()}


@functools.cache
def plain() -> start.Start:
    return start.run("plain", 1)


def needs(kind: str) -> None:
    if f" {kind} " not in Path("/proc/mounts").read_text():
        skip(f"no {kind} file system is mounted on this machine")


def test_with_version_1() -> None:
    needs("cgroup")
    assert listed("\n".join(one_start.tables(plain()))) == listed(part(PLAIN)), ANEW
    besides = one_start.tables(start.run("gpus", 1), plain().functions())
    assert listed("\n".join(besides)) == listed(part(GPUS)), ANEW


def test_with_the_default_network() -> None:
    needs("cgroup")
    installed("nft")
    besides = one_start.tables(start.run("plain", 1, "bridge"), plain().functions())
    found, page = ([row for row in listed(text) if RACING not in row]
                   for text in ("\n".join(besides), part(NETWORK)))  # fmt: skip
    assert found == page, ANEW
    assert RACING in part(NETWORK)


def test_with_version_2() -> None:
    needs("cgroup2")
    with_1 = part(PLAIN) + part(GPUS)
    expected = rows(with_1) - rows(with_1, "¹") | rows(part(VERSION_2))
    assert ran(start.run("plain", 2), start.run("gpus", 2)) == expected, ANEW


def test_with_the_launcher_the_way_is_the_same(tmp_path: Path) -> None:
    needs("cgroup")
    launcher.install(str(tmp_path / "minirun"))
    quick = ran(start.run("plain", 1, program=str(tmp_path / "minirun")))
    loading = {row for row in quick if row[0].startswith("fast/")}
    assert loading
    assert quick - loading == rows(part(PLAIN)), ANEW


def test_the_core_names_the_extras_of_a_plain_start() -> None:
    """Those of the table whose module has run are the ones that core/__init__.py names."""
    files = {file for file, _ in rows(part(PLAIN))}
    modules = {name.rpartition(".")[0] for _, name, _ in extras.TABLE}
    run = {name for name in modules if _file(name) in files}
    named = re.findall(r"^    (\S+) +(\w+), an extra\.", core.__doc__ or "", re.M)
    assert {f"minirun.{room.replace('/', '.')}" for room, _ in named} == run
    for room, name in named:
        module = importlib.import_module(f"minirun.{room.replace('/', '.')}")
        assert issubclass(getattr(module, name), Extra)


def _file(module: str) -> str:
    """Return the path of a module below minirun/."""
    path = Path(importlib.import_module(module).__file__ or "")
    return str(path.relative_to(start.SOURCE))


def test_a_function_is_found_by_its_lines() -> None:
    """What stands in it, such as a comprehension, is part of it; a function in it is not."""
    file = "core/lifecycle.py"
    text = (start.SOURCE / file).read_text().splitlines()
    line = next(n for n, each in enumerate(text, 1) if "lambda channel" in each)
    function = start.function_at(file, line)
    assert function and function.name == "create"
    assert function.text == "Make the container, until its init waits for `start`"
    assert start.function_at(file, 1) is None
    outer, inner = (
        next(each for *_, each in start._functions("cli/run/run_image.py") if each.name == name)
        for name in ("_launch", "_launch.record")
    )
    assert not outer.lines & inner.lines
