"""JSON, on the interpreter's own C scanner and encoder.

``import json`` pulls in ``re`` and ``enum`` (6 ms); its C half, ``_json``, is built into the
interpreter and costs 0.2 ms. This module gives that half the two functions that a start needs,
with the same results as :func:`json.loads` and :func:`json.dumps` (a test compares them).
All that a start does not need uses :mod:`json`.
"""

from __future__ import annotations

from _json import encode_basestring, encode_basestring_ascii, make_encoder, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SPACE = " \t\n\r"


class _Context:
    """The attributes that ``_json.make_scanner`` reads from a decoder."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    memo: dict[str, str] = {}

    @staticmethod
    def parse_constant(name: str) -> float:
        """RFC 8259 has no NaN and no Infinity, and config.json is no place for them."""
        raise ValueError(f"{name} is not JSON")


class JSONError(ValueError):
    """A text that is not one JSON value; says at which character."""


def loads(text: str) -> Any:
    """Return the value that `text` holds.

    Raises JSONError for anything that is not exactly one JSON value.
    """
    start = len(text) - len(text.lstrip(_SPACE))
    try:
        value, end = _scan(text, start)
    except StopIteration as stop:
        raise JSONError(f"expected a JSON value at character {stop.value}") from None
    except SystemError:  # _json wants json.decoder for its message, which is not loaded
        raise JSONError("it ends too early, or a string in it is broken") from None
    except RecursionError:
        raise JSONError("nested too deeply") from None
    except ValueError as error:
        digits = "int_max_str_digits" in str(error)
        raise JSONError("a number has too many digits" if digits else str(error)) from None
    if text[end:].strip(_SPACE):
        raise JSONError(f"unexpected text at character {end}")
    return value


def dumps(value: object, *, indent: int = 0) -> str:
    """Return `value` as JSON: on one line, or indented by `indent` spaces a level."""
    return _pretty(value, " " * indent, "\n") if indent else "".join(_compact(value, 0))


def _refuse(value: object) -> None:
    raise TypeError(f"{type(value).__name__} is not JSON")


def _pretty(value: Any, step: str, line: str) -> str:
    """Return a value as JSON of several lines; `line` is a newline and this level's indent."""
    inner = line + step
    if isinstance(value, dict) and value:
        rows = [f"{encode_basestring(k)}: {_pretty(v, step, inner)}" for k, v in value.items()]
        return "{" + inner + ("," + inner).join(rows) + line + "}"
    if isinstance(value, (list, tuple)) and value:
        return "[" + inner + ("," + inner).join(_pretty(v, step, inner) for v in value) + line + "]"
    return encode_basestring(value) if isinstance(value, str) else "".join(_compact(value, 0))


_scan = make_scanner(_Context)  # type: ignore[arg-type]  # any object with these attributes
_compact = make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, False)
