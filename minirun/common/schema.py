"""A JSON schema in brief, and the check of a document against it: config.json's and CDI's.

    str, int, bool, dict     a value of that type; an int has 64 bits
    UINT32, UINT64           a whole number from 0 up, of so many bits
    [shape]                  a list whose every item has that shape
    {"a": shape, "b!": …}    an object; what ends in ``!`` must be there, ``"*"`` stands for any key

The culprit is named by its exact path: ``mounts[3].options[0]: …``. By hand, since it runs in every
start of a container, and a library for JSON Schema takes longer to import than minirun to start.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


UINT32, UINT64 = 32, 64


class SchemaError(ValueError):
    """What is wrong with a document; begins with the place in it."""


_WORDS = {str: "a string", int: "a whole number", bool: "true or false", dict: "an object"}
_DEEPEST = 64
_LONGEST_TEXT = 150  # of an error, behind the path


def fail(where: str, what: str) -> NoReturn:
    """Raise SchemaError: `where: what`."""
    short = what if len(what) < _LONGEST_TEXT else what[:_LONGEST_TEXT] + "…"
    raise SchemaError(f"{where}: {short}")


def absolute(path: str, where: str) -> None:
    """Raise SchemaError unless `path` is absolute."""
    if not path.startswith("/"):
        fail(where, f"{path!r} is not an absolute path")


def without_nulls(value: Any, where: str = "", depth: int = 0) -> Any:
    """Remove null properties, which mean the same as missing ones, from `value`; return it.

    Raises SchemaError for what cannot be handed on: text that the kernel would cut short or no file
    could hold, a number that is none, too many levels.
    """
    if depth > _DEEPEST:
        fail(where[:40], f"is nested more than {_DEEPEST} levels deep")
    if isinstance(value, str):
        _text(value, where)
    elif isinstance(value, float) and value in (float("inf"), float("-inf")):
        fail(where, "is out of range")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if not isinstance(item, int):
                without_nulls(item, f"{where}[{index}]", depth + 1)
    elif isinstance(value, dict):
        for key in [key for key, item in value.items() if item is None]:
            del value[key]
        for key, item in value.items():
            _text(key, f"{where}.{key!r}" if where else repr(key))
            if not isinstance(item, int):
                without_nulls(item, f"{where}.{key}" if where else key, depth + 1)
    return value


def _text(text: Any, where: str) -> None:
    if not isinstance(text, str):  # a key in YAML
        _wrong(where, _WORDS[str], text)
    if "\0" in text:
        fail(where, "holds a NUL character")
    if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
        fail(where, "holds half of a surrogate pair")


class Checker:
    """Checks documents of one kind.

    `name` is what the whole document is called; `most`: path → the most entries of the list there;
    `strict`: "" if unknown properties are ignored, else what errors call the one who knows all.
    """

    def __init__(self, name: str, most: dict[str, int], strict: str = "") -> None:
        self.name = name
        self.most = most
        self.strict = strict

    def check(self, value: Any, shape: Any, where: str = "") -> None:
        """Raise SchemaError unless `value` has this shape."""
        if isinstance(shape, dict):
            self._object(value, shape, where)
        elif isinstance(shape, list):
            if not isinstance(value, list):
                _wrong(where, "a list", value)
            if len(value) > self.most.get(where, len(value)):
                fail(where, f"has {len(value)} entries, more than {self.most[where]}")
            for index, item in enumerate(value):
                self.check(item, shape[0], f"{where}[{index}]")
        elif shape in (UINT32, UINT64):
            if type(value) is not int or not 0 <= value < 2**shape:
                _wrong(where, f"a whole number from 0 to 2^{shape} - 1", value)
        elif type(value) is not shape:
            _wrong(where, _WORDS[shape], value)
        elif shape is int and not -(2**63) <= value < 2**63:
            _wrong(where, "a whole number of 64 bits", value)

    def _object(self, value: Any, shape: dict[str, Any], where: str) -> None:
        if not isinstance(value, dict):
            _wrong(where or self.name, "an object", value)
        names = {key.removesuffix("!") for key in shape} if self.strict else set()
        for name in value if names and "*" not in names else ():
            if name not in names:
                place = f"{where}.{name}" if where else name
                fail(place, f"is no property that {self.strict} knows")
        for key, inner in shape.items():
            name = key.removesuffix("!")
            path = f"{where}.{name}" if where else name
            if key == "*":
                for any_name, item in value.items():
                    self.check(item, inner, f"{where}.{any_name}")
            elif name in value:
                self.check(value[name], inner, path)
            elif key.endswith("!"):
                fail(path, "is required")


def _wrong(where: str, expected: str, value: object) -> NoReturn:
    fail(where, f"expected {expected}, got {value!r}")
