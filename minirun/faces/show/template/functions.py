"""The functions of templates: those of Go's text/template, and docker's.

docker's are json, join, split, lower, upper, title, truncate, pad and println (docs.docker.com,
"Format command and log output"). Each raises CallError; TypeError for a wrong number of values.
"""

from __future__ import annotations

import re
from typing import Any

from minirun.core.keeping.visible import clean
from minirun.faces.show.template.values import (
    MISSING,
    CallError,
    Fields,
    Safe,
    is_true,
    json_of,
    plain,
    type_of,
    visible,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 1 << 20
"""Signs that `pad` and a width of printf may add: a template is no way to fill the memory."""


def _json(value: Any) -> Safe:
    return Safe(json_of(value))


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, Fields):
            raise CallError(f"can't index item of type {type_of(value)}")
        if isinstance(value, dict):
            if not isinstance(key, str):
                raise CallError(f"value has type {type_of(key)}; should be string")
            texts = all(isinstance(each, str) for each in value.values())
            value = value.get(key, "" if texts else MISSING)
        elif isinstance(value, list | tuple | str):
            if isinstance(key, bool) or not isinstance(key, int):
                raise CallError(f"cannot index slice/array with type {type_of(key)}")
            if not 0 <= key < len(value):
                raise CallError(f"index out of range: {key}")
            value = value[key] if not isinstance(value, str) else ord(value[key])
        elif value is None or value is MISSING:
            raise CallError("index of untyped nil")
        else:
            raise CallError(f"can't index item of type {type_of(value)}")
    return value


def _len(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode(errors="surrogateescape"))
    if isinstance(value, dict | list | tuple) and not isinstance(value, Fields):
        return len(value)
    raise CallError(f"len of type {type_of(value)}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise CallError(f"wrong type: expected string; found {type_of(value)}")
    return value


def _join(values: Any, separator: Any) -> Safe:
    if values is None or values is MISSING:
        return Safe("")
    if not isinstance(values, list | tuple):
        raise CallError(f"wrong type: expected a list of strings; found {type_of(values)}")
    return Safe(plain(_text(separator)).join(plain(_text(each)) for each in values))


def _split(text: Any, separator: Any) -> list[str]:
    whole, between = _text(text), _text(separator)
    return whole.split(between) if between else list(whole)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise CallError(f"wrong type: expected int; found {type_of(value)}")
    if value > _LONGEST:
        raise CallError(f"{value} is more than {_LONGEST}")
    return value


def _truncate(text: Any, length: Any) -> str:
    return _text(text)[: max(0, _count(length))]


def _pad(text: Any, before: Any, after: Any) -> str:
    if not _text(text):
        return ""
    return Safe(" " * _count(before) + plain(text) + " " * _count(after))


def _title(text: Any) -> str:
    return re.sub(r"(?<!\S)\S", lambda match: match[0].upper(), _text(text))


def _println(*values: Any) -> Safe:
    return Safe(" ".join(map(plain, values)) + "\n")


def _print(*values: Any) -> Safe:
    """Go's Sprint: a blank between two values of which neither is a text."""
    out = ""
    for number, value in enumerate(values):
        both = number and not isinstance(value, str) and not isinstance(values[number - 1], str)
        out += (" " if both else "") + plain(value)
    return Safe(out)


_VERB = re.compile(r"%([-+# 0]*)(\d+)?(?:\.(\d*))?(.)?", re.DOTALL)


def _printf(form: Any, *values: Any) -> Safe:
    """Go's Sprintf, with %s %d %v %q %t %x %f %g %c and %%, a width and a precision."""
    rest = list(values)

    def one(match: re.Match[str]) -> str:
        flags, width, precision, verb = match.groups()
        if verb is None:
            return "%!(NOVERB)"
        if verb == "%":
            return "%"
        if not rest:
            return f"%!{clean(verb)}(MISSING)"
        text = _verb(verb, rest.pop(0), precision)
        size = _count(int((width or "0")[:9]))
        if "-" in flags:
            return text.ljust(size)
        return text.zfill(size) if "0" in flags and verb in "dxfg" else text.rjust(size)

    text = _VERB.sub(one, plain(_text(form)))
    if rest:
        extra = ", ".join(f"{type_of(each)}={plain(each)}" for each in rest)
        text += f"%!(EXTRA {extra})"
    return Safe(text)


def _verb(verb: str, value: Any, precision: str | None) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    digits = int(precision[:4] or 0) if precision is not None else None
    if verb == "v":
        return plain(value)
    if verb == "s" and not number and not isinstance(value, bool):
        return plain(value)[:digits]
    if verb == "q" and isinstance(value, str):
        return json_of(str(value))
    if verb == "q" and isinstance(value, list | tuple):
        return f"[{' '.join(_verb('q', each, None) for each in value)}]"
    if verb == "d" and isinstance(value, int) and number:
        return str(value)
    if verb == "t" and isinstance(value, bool):
        return plain(value)
    if verb == "x" and isinstance(value, int) and number:
        return f"{value:x}"
    if verb == "x" and isinstance(value, str):
        return value.encode(errors="surrogateescape").hex()
    if verb == "c" and isinstance(value, int) and number and 0 <= value < 0xD800:
        return visible(chr(value))
    if verb in "fg" and isinstance(value, float):
        return f"{value:.{6 if digits is None else digits}f}" if verb == "f" else plain(value)
    return f"%!{clean(verb)}({type_of(value)}={plain(value)})"


def _same_kind(one: Any, other: Any) -> bool:
    for kind in (bool, (int, float), str):
        if isinstance(one, kind) or isinstance(other, kind):
            return isinstance(one, kind) and isinstance(other, kind)
    return False


def _eq(one: Any, *others: Any) -> bool:
    if not others:
        raise CallError("missing argument for comparison")
    for other in others:
        nothing = [each is None or each is MISSING for each in (one, other)]
        if all(nothing):
            return True
        if any(nothing):
            continue
        if not _same_kind(one, other):
            raise CallError("incompatible types for comparison")
        if one == other:
            return True
    return False


def _lt(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or not _same_kind(one, other):
        raise CallError("incompatible types for comparison")
    return bool(one < other)


def _slice(value: Any, *places: Any) -> Any:
    start, end = [*places, 0][0], (places[1] if len(places) > 1 else len(value))
    if not 0 <= _count(start) <= _count(end) <= len(value):
        raise CallError(f"index out of range: {start}:{end}")
    return value[start:end]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "json": _json, "index": _index, "len": _len, "join": _join, "split": _split,
    "lower": lambda text: _text(text).lower(), "upper": lambda text: _text(text).upper(),
    "title": _title, "truncate": _truncate, "pad": _pad,
    "print": _print, "println": _println, "printf": _printf, "slice": _slice,
    "not": lambda value: not is_true(value),
    "eq": _eq, "ne": lambda one, other: not _eq(one, other),
    "lt": _lt, "le": lambda one, other: _lt(one, other) or _eq(one, other),
    "gt": lambda one, other: not (_lt(one, other) or _eq(one, other)),
    "ge": lambda one, other: not _lt(one, other),
}  # fmt: skip
"""The functions of a template by name; `and` and `or`, which stop early, are Execution's."""
OF_HEADINGS = FUNCTIONS | dict.fromkeys(
    ("json", "title", "lower", "upper", "truncate"), lambda value, *_: value
)
"""What they are in the line above a table's columns, which docker leaves as it is."""
for _name, _function in FUNCTIONS.items():
    _function.__name__ = _name
