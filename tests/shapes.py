"""Well-formed JSON of the wrong shape, and commands that read it."""

import json
import os
import re
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

from conftest import Program
from minirun import cli

VALUES = (5, -1, True, 1.5, "x", "", None, [], {}, [5], ["x"], [[]], [{}], {"a": 5}, {"a": {}})
FEW = (5, True, "x", [{}], {"a": 5})
"""What is tried by default, all of VALUES by `make night`."""
PYTHONISH = re.compile(
    r"Traceback|object (has no|is not|does not)|not subscriptable|NoneType|must be (str|int|real)|"
    r"unhashable|unsupported operand|not supported between|<class|indices must|takes \d|"
    r"Error\(|argument of type|invalid literal|cannot unpack|not iterable|out of range: '"
)


def nodes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each node; of a list the first two items stand for all."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from nodes(value[key], (*path, key))
    elif isinstance(value, list):
        for index in range(min(len(value), 2)):
            yield from nodes(value[index], (*path, index))


def replaced(text: str, path: tuple[Any, ...], value: Any) -> str:
    """Return the document with another value at one place."""
    document = json.loads(text)
    if not path:
        return json.dumps(value)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return json.dumps(document)


def call(program: Program, *words: str) -> tuple[int, str]:
    """Return a command's status and what it says on standard error; -1: it failed in Python.

    It is called in this process, since its imports take longer than its work.
    """
    if words[0] == "exec":  # it executes its program anew, which here would be the tests
        done = program(*words)
        return done.returncode, done.stderr
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as said, open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 1)
        os.dup2(said.fileno(), 2)
        try:
            with redirect_stdout(null):
                status = cli.main(program.argv(*words)[1:])
        except BaseException:
            os.write(2, traceback.format_exc().encode())
            status = -1
        finally:
            for fd, saved in zip((1, 2), kept, strict=True):
                os.dup2(saved, fd)
                os.close(saved)
        said.seek(0)
        return status, said.read().decode(errors="replace")


def fault(status: int, said: str) -> str:
    """Return what is wrong with how a command has ended: its last line; "" if nothing is."""
    lines = said.splitlines()
    own = all(line.startswith("minirun: ") for line in lines)
    if status >= 0 and own and len(lines) < 3 and not PYTHONISH.search(said):
        return ""
    return lines[-1] if lines else f"status {status}"
