"""Writes tutorials/reference/api.md from the docstrings of the Python API: `make reference`."""

import enum
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minirun.faces import api

PAGE = Path(__file__).parents[2] / "reference" / "api.md"
_BELOW = re.compile(
    r'^ +(?:self\.)?([a-z]\w*)(?:: [^\n=]+)?(?: = [^\n]+)?\n +"""(.+?)"""', re.M | re.S
)
"""An attribute, and what is said of it in the line below."""
HEAD = """\
# The Python API

<!-- written from the docstrings: change minirun/faces/api, then `make reference` -->

    import minirun
    container = minirun.run("ubuntu", "nvidia-smi", "-L", gpus="0,1")

Each object shows itself: as a table or a drawing in a notebook, as text at a prompt. `help()` says
the same as this page.
"""


FILES = "What `run` and `step` need:"
"""What follows in the package's docstring is for readers of its source."""


def text() -> str:
    """Return the page."""
    about, _, _files = inspect.cleandoc(api.__doc__ or "").partition("\n\n")[2].partition(FILES)
    parts = [HEAD, about]
    for name in sorted(api.__all__, key=lambda name: (inspect.isclass(getattr(api, name)), name)):
        parts += _of_class(name) if inspect.isclass(getattr(api, name)) else _of_function(name)
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _of_function(name: str) -> Iterator[str]:
    function = getattr(api, name)
    yield f"## {name}"
    yield f"```python\nminirun.{name}{_signature(function)}\n```"
    yield _words(function)


def _of_class(name: str) -> Iterator[str]:
    shown = getattr(api, name)
    yield f"## {name}"
    yield _words(shown)
    rows = [f"- `{member}`: {what}" for member, what in _attributes(shown)]
    yield "\n".join(rows)
    for member, function in inspect.getmembers(shown, inspect.isfunction):
        if _is_its_own(shown, member) and function.__doc__:
            yield f"### {name}.{member}"
            yield f"```python\n{member}{_signature(function)}\n```"
            yield _words(function)


def _attributes(shown: Any) -> Iterator[tuple[str, str]]:
    """Yield properties, and what is documented in the source below an attribute."""
    for member, value in inspect.getmembers(shown, lambda each: isinstance(each, property)):
        if _is_its_own(shown, member):
            yield member, _one_line(value.__doc__ or "")
    if issubclass(shown, enum.Enum):
        return
    source = inspect.getsource(shown)
    yield from ((name, _one_line(said)) for name, said in _BELOW.findall(source))


def _is_its_own(shown: Any, member: str) -> bool:
    """Return True for what a reader calls, and the class itself, or its parents here, define."""
    owner = next((each for each in shown.__mro__ if member in vars(each)), object)
    return not member.startswith("_") and owner.__module__.startswith("minirun")


def _signature(function: Any) -> str:
    found = str(inspect.signature(function)).replace("'", "")
    found = re.sub(r"\(self(?:, )?", "(", found)
    for name in api.__all__:  # as callers write it
        found = re.sub(rf"\b{getattr(api, name).__name__}\b", name, found)
    found = re.sub(r"\b(?:minirun|collections|pathlib)(?:\.[a-z_]\w*)*\.(?=[A-Z])", "", found)
    if len(found) < 70:
        return found
    inside, _, result = found[1:].rpartition(")")
    rows = re.sub(r", (?=[\w*]+(?::|,|$|=| =))", ",\n    ", inside)
    return f"(\n    {rows},\n){result}"


def _words(shown: Any) -> str:
    """Return a docstring as Markdown."""
    return inspect.cleandoc(shown.__doc__ or "")


def _one_line(said: str) -> str:
    return " ".join(said.split())
