"""The values of a template, as Go has them: their truth, their types, and how they are printed.

Data are dicts, lists, texts, numbers, None, and functions: the methods of what has fields. A text
that comes from a container is cleaned if it goes to a terminal (minirun.core.keeping.visible), and
printed as it is into a file or a pipe; so is what the template says, such as "\\n", everywhere.
"""

from __future__ import annotations

import json
import os
from typing import Any

from minirun.core.errors import UsageError
from minirun.core.keeping.visible import clean
from minirun.running.visible_json import clean_json


class TemplateError(UsageError):
    """A template is wrong, or asks for what is not there. Its one line says where."""


GO_NAMES = {
    "Id": "ID", "Dns": "DNS", "DnsOptions": "DNSOptions", "DnsSearch": "DNSSearch",
    "HostIp": "HostIP", "NanoCpus": "NanoCPUs",
    **{f"Cpu{name}": f"CPU{name}" for name in (
        "Count", "Percent", "Period", "Quota", "RealtimePeriod", "RealtimeRuntime", "Shares")},
}  # fmt: skip
"""Name of a field in docker's JSON → its name for a template, where that is another one."""


class Fields(dict[str, Any]):
    """What has a fixed set of fields: another one is a mistake. (Go: a struct.)"""

    optional: frozenset[str] = frozenset()
    """Fields that JSON leaves out if they are empty. (Go: omitempty.)"""

    def optionally(self, **fields: Any) -> Fields:
        """Add fields that JSON leaves out if they are empty; return this object."""
        self |= fields
        self.optional |= fields.keys()
        return self

    def in_json(self) -> dict[str, Any]:
        """Return the fields that JSON has."""
        return {name: value for name, value in self.items() if value or name not in self.optional}

    def of_template(self, name: str) -> str:
        """Return the key of what a template calls so; "" if there is none."""
        key = next((key for key, go in GO_NAMES.items() if go == name and key in self), name)
        return key if key in self and name not in GO_NAMES else ""


class NilList(list[Any]):
    """A list that is not there: null as JSON, [] for a template. (Go: a nil slice.)"""


class NilMap(dict[str, Any]):
    """A map that is not there: null as JSON, map[] for a template. (Go: a nil map.)"""


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
    """Return a value as {{.}} prints it: Go's %v; what is not in a map is <no value>."""
    return "<no value>" if value is MISSING else plain(value)


def visible(text: str) -> str:
    """Return a text as it is printed: without what a terminal obeys, if it goes to one."""
    return clean(text) if os.isatty(1) else text


def plain(value: Any) -> str:
    """Return a value as printf's %v prints it: nil is <nil>."""
    if isinstance(value, Safe):
        return value
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or value is MISSING:
        return "<nil>"
    if isinstance(value, float):
        text = repr(value)
        return text.removesuffix(".0")
    if isinstance(value, Fields):
        return f"{{{' '.join(plain(each) for each in value.values() if not callable(each))}}}"
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
    if isinstance(value, Fields):
        return "struct"
    return kinds.get(type(value), "map" if isinstance(value, dict) else "nil")


def json_of(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON, without the functions in it; signs that a terminal obeys are \\u…."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(
        _data(value), ensure_ascii=False, separators=separators, indent=indent, allow_nan=False
    )
    return clean_json(text)


def as_map(value: Fields) -> Any:
    """Return what reading its JSON gives: maps, and what is null there is no value."""
    return _without_null(json.loads(json_of(value)))


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_null(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_null(each) for each in value]
    return MISSING if value is None else value


def _data(value: Any) -> Any:
    if isinstance(value, NilList | NilMap):
        return None
    if isinstance(value, Fields):
        value = value.in_json()
    if isinstance(value, dict):
        return {key: _data(each) for key, each in value.items() if not callable(each)}
    if isinstance(value, list | tuple):
        return [_data(each) for each in value]
    return None if value is MISSING else value
