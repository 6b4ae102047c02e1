"""One start, traced: which functions of minirun run in it, in which process, and in which order.

tracer.py writes it down; here are the surroundings in which it runs, and a reader of what it
wrote. A lambda or a comprehension is part of the function in whose lines it stands; one that stands
in none, such as a table's, is not counted.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import minirun as package
from minirun.cgroups import hierarchies
from minirun.core.keeping.places import STORE

SOURCE = Path(package.__file__).parent
TRACER = Path(__file__).with_name("tracer.py")
SLOW = str(SOURCE / "__main__.py")
"""The program without its launcher."""
COMMANDS = {
    "plain": ("run", "--rm", "busybox", "true"),
    "gpus": ("run", "--rm", "--gpus", "0,1", "busybox", "true"),
}
PROCESSES = {
    ("__main__.py", "start"): "runtime",
    ("core/lifecycle.py", "run_init"): "init",
    ("core/stages/s3_prestart.py", "_hook"): "hook",
    ("gpu/ldconfig.py", "_become"): "ldconfig",
    ("net/nft.py", "_become"): "nft",
}
"""A function that one kind of process alone calls → the name of that."""
LUCK = {
    "running/pipes.py": ("step", "finish", "end", "_held", "_read", "_write", "_write_all"),
}
"""File → methods of a start that depend on luck, and are not counted. The runtime waits for two
things, the end of the command's output and the end of its process: which one it sees first decides
which of these run, and in which order. All others are the same each time."""
_SHELL = """
folder=$1 store=$2 python=$3 tracer=$4 program=$5; shift 5
mkdir "$folder/store" "$folder/trace"
mount -t tmpfs -o mode=755 tmpfs "$folder/store"
for name in images layers; do
    mkdir "$folder/store/$name"; mount --bind "$store/$name" "$folder/store/$name"; done
mount --rbind "$folder/store" "$store"
for drivers in /proc/driver/nvidia /sys/module /sys/bus/pci /sys/class; do
    [ ! -d $drivers ] || mount -t tmpfs tmpfs $drivers; done
echo 0 > /proc/sys/net/ipv4/ip_forward  # a new network namespace begins with the host's
"$python" -I "$program" "$@"
exec "$python" -I "$tracer" "$folder/trace" "$program" "$@"
"""


class Function(NamedTuple):
    """A function of minirun's."""

    file: str
    """Its path below minirun/."""
    name: str
    """With its class, or the function that it stands in: Channel.say, _launch.record."""
    lines: frozenset[int]
    """From `def` to its last line; those of a function in it are not among them."""
    code: frozenset[int]
    """Those of them that have something to run: neither `def` nor the docstring."""
    text: str
    """The first sentence of its docstring. A public or special method without one has its class's,
    in brackets; any other "".
    """


class Start(NamedTuple):
    """What ran."""

    calls: dict[str, list[tuple[str, Function]]]
    """Process → (stage of the log, or "load"; function), at its first call in that stage."""
    lines: dict[str, set[int]]
    """File → the lines that ran."""

    def functions(self) -> dict[Function, None]:
        """Return all that ran, in any process."""
        return dict.fromkeys(each for rows in self.calls.values() for _, each in rows)

    def executed(self, function: Function) -> int:
        """Return how many lines of a function ran."""
        return len(function.code & self.lines[function.file])


def run(command: str, version: int, network: str = "none", program: str = SLOW) -> Start:
    """Start a container in surroundings that are the same on each machine; return what ran.

    The first start there makes what later ones find (folders, the simulated driver), and is not
    traced. `version`: cgroup file systems of that one alone are mounted. No GPU of the host can be
    seen, nor another container. Raises RuntimeError, OSError.
    """
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root",
        "MINIRUN_NETWORK": network,
    }  # fmt: skip
    apart = ("unshare", "--mount", "--net", "--propagation", "private")
    with tempfile.TemporaryDirectory() as folder, _cgroups(version) as enter:
        words = (folder, STORE, sys.executable, str(TRACER), program, *COMMANDS[command])
        done = subprocess.run(
            [*apart, "sh", "-ec", enter, "sh", "sh", "-ec", _SHELL, "sh", *words],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"minirun {' '.join(COMMANDS[command])}: {done.stderr}")
        return _read(Path(folder, "trace"))


@contextmanager
def _cgroups(version: int) -> Iterator[str]:
    """Make a cgroup in each hierarchy of a version; yield the shell lines that make it the root.

    So no other container's cgroup can be seen. One of version 2 has no controllers, since it lies
    in one that passes none on.
    """
    there = [each for each in hierarchies.mounted() if each.version == version]
    made = [Path(each.path, f"minirun-path-{os.getpid()}") for each in there]
    lines = ["umount --recursive /sys/fs/cgroup", "mount -t tmpfs tmpfs /sys/fs/cgroup"]
    try:
        for each, folder in zip(there, made, strict=True):
            folder.mkdir()
            if "cpuset" in each.names:
                for name in ("cpuset.cpus", "cpuset.mems"):
                    (folder / name).write_text(Path(each.path, name).read_text())
            lines.append(f"mkdir -p {each.path}")
            lines.append(f"mount -t cgroup -o {','.join(each.names)} cgroup {each.path}")
        leaves = made
        if version == 2:
            leaves = [each / "none" for each in made]
            leaves[0].mkdir()
            lines[1:] = ["mount -t cgroup2 cgroup2 /sys/fs/cgroup"]
        enter = [f"echo 0 > {each}/cgroup.procs" for each in leaves]
        yield "\n".join([*enter, "exec unshare --cgroup sh -ec '", *lines, 'exec "$@"\' sh "$@"'])
    finally:
        for folder in made:
            for below in ("none/minirun", "none", "minirun", ""):
                _remove(folder / below)


def _remove(cgroup: Path) -> None:
    """Remove a cgroup that no process is in, but one perhaps that has not ended yet."""
    deadline = time.monotonic() + 3
    while cgroup.exists():
        try:
            cgroup.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _read(folder: Path) -> Start:
    """Read the files of all processes; two of one kind (nft's) are one."""
    start = Start({}, {})
    for path in sorted(folder.iterdir()):
        rows = [line.split() for line in path.read_bytes().rstrip(b"\0").decode().splitlines()]
        calls = []
        for kind, *words in rows:
            file = str(Path(words[-2]).relative_to(SOURCE))
            if kind == "line":
                start.lines.setdefault(file, set()).add(int(words[-1]))
            elif (each := function_at(file, int(words[-1]))) and not _is_luck(each):
                calls.append((words[0], each))
        named = (PROCESSES.get((each.file, each.name)) for _, each in calls)
        known = start.calls.setdefault(next(filter(None, named)), [])
        known.extend(each for each in dict.fromkeys(calls) if each not in known)
    return start


def _is_luck(function: Function) -> bool:
    return function.name.rpartition(".")[2] in LUCK.get(function.file, ())


def function_at(file: str, line: int) -> Function | None:
    """Return the innermost function in whose lines this one is; None if it is in none."""
    found = [each for first, last, each in _functions(file) if first <= line <= last]
    return found[-1] if found else None


@cache
def _functions(file: str) -> list[tuple[int, int, Function]]:
    """Return the functions of a file, each with its first and last line; outer ones come first."""
    return list(_below(ast.parse((SOURCE / file).read_text()), file, ""))


@cache
def _code_lines(file: str) -> frozenset[int]:
    """Return the lines of a file for which the compiler has made instructions."""
    found, codes = set[int](), [compile((SOURCE / file).read_text(), file, "exec")]
    while codes:
        code = codes.pop()
        found |= {line for *_, line in code.co_lines() if line}
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    return frozenset(found)


def _below(
    node: ast.AST, file: str, name: str, above: ast.ClassDef | None = None
) -> Iterator[tuple[int, int, Function]]:
    """Yield the functions in a node; `above` is the class that it is the body of."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield from _below(child, file, name, above)
            continue
        own = f"{name}.{child.name}".lstrip(".")
        inner = list(_below(child, file, own, child if isinstance(child, ast.ClassDef) else None))
        if isinstance(child, ast.FunctionDef):
            first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
            last = child.end_lineno or first
            lines = set(range(child.lineno, last + 1)).difference(*(e.lines for *_, e in inner))
            text = _first_sentence(child)
            if above and not text and not re.match(r"_[a-z]", child.name):
                text = f"({_first_sentence(above)})"
            code = lines & _code_lines(file) - {child.lineno}
            function = Function(file, own, frozenset(lines), frozenset(code), text)
            yield first, last, function
        yield from inner


def _first_sentence(node: ast.FunctionDef | ast.ClassDef) -> str:
    """Return the first sentence of a docstring; "" without one."""
    paragraph = (ast.get_docstring(node) or "").partition("\n\n")[0]
    return re.split(r"(?<=[.)`])\. |\. (?=[A-Z`])", " ".join(paragraph.split()))[0].rstrip(".")
