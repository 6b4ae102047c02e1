"""The values of a template, as Go has them: their truth, their types, and how they are printed.

Data are dicts, lists, texts, numbers, None, and functions: the methods of what has fields. A text
that comes from a container is cleaned when it is printed (minirun.core.keeping.visible); what the
template itself says, such as "\\n", is printed as it stands.
"""

from __future__ import annotations

import json
from typing import Any

from minirun.core.errors import UsageError
from minirun.core.keeping.visible import clean
from minirun.running.visible_json import clean_json


class TemplateError(UsageError):
    """A template is wrong, or asks for what is not there. Its one line says where."""


class Fields(dict[str, Any]):
    """What has a fixed set of fields: another one is a mistake. (Go: a struct.)"""


class Safe(str):
    """A text of the template itself, or one that has been cleaned: printed as it is."""


class _Missing:
    """What a map has for a key that is not in it."""


MISSING = _Missing()


class CallError(Exception):
    """A function cannot do it with these arguments."""


def is_true(value: Any) -> bool:
    """Return True for what `if` takes as true: no zero, no empty text, list or map, no nil."""
    return value is not MISSING and bool(value)


def printed(value: Any) -> str:
    """Return a value as {{.}} prints it: Go's %v; what is not there is <no value>."""
    if value is None or value is MISSING:
        return "<no value>"
    return plain(value)


def plain(value: Any) -> str:
    """Return a value as printf's %v prints it: nil is <nil>."""
    if isinstance(value, Safe):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or value is MISSING:
        return "<nil>"
    if isinstance(value, float):
        text = repr(value)
        return text.removesuffix(".0")
    if isinstance(value, dict):
        rows = (f"{plain(key)}:{plain(each)}" for key, each in sorted(value.items()))
        return f"map[{' '.join(rows)}]"
    if isinstance(value, list | tuple):
        return f"[{' '.join(map(plain, value))}]"
    return str(value)


def type_of(value: Any) -> str:
    """Return Go's name of a value's type, for an error."""
    kinds = {bool: "bool", int: "int", float: "float64"}
    if isinstance(value, str):
        return "string"
    if isinstance(value, list | tuple):
        return "slice"
    return kinds.get(type(value), "map" if isinstance(value, dict) else "nil")


def json_of(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON, without the functions in it; signs that a terminal obeys are \\u…."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(
        _data(value), ensure_ascii=False, separators=separators, indent=indent, allow_nan=False
    )
    return clean_json(text)


def _data(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _data(each) for key, each in value.items() if not callable(each)}
    if isinstance(value, list | tuple):
        return [_data(each) for each in value]
    return None if value is MISSING else value
