"""Names of CDI devices: `vendor.com/class=name`, on the command line and in annotations.

The specification's grammar (SPEC.md, "Kind" and "Devices"): vendor and class begin with a letter
and end with a letter or digit, with letters, digits, `_`, `-` and `.` between; a device's name
begins and ends with a letter or digit and may hold `:` too. So "/dev/x" is never such a name.
"""

from __future__ import annotations

from minirun.core.errors import GPUError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX = "cdi.k8s.io/"
"""Of annotations whose value is a list of devices, separated by commas."""


def is_qualified(text: str) -> bool:
    """Tell whether `text` is the full name of a CDI device."""
    kind, equals, name = text.partition("=")
    return bool(equals) and not kind_problem(kind) and not name_problem(name)


def kind_problem(kind: str) -> str:
    """Say what is wrong with a kind, `vendor.com/class`; empty where nothing is."""
    vendor, slash, name = kind.partition("/")
    if not slash:
        return f"{kind!r} is not vendor/class, as in nvidia.com/gpu"
    for what, text in (("vendor", vendor), ("class", name)):
        if problem := _problem(text, "_-."):
            return f"{what} {text!r} {problem}"
        if not text[0].isalpha():
            return f"{what} {text!r} must begin with a letter"
    return ""


def name_problem(name: str) -> str:
    """Say what is wrong with a device's name in its kind; empty where nothing is."""
    problem = _problem(name, "_-.:")
    return f"name {name!r} {problem}" if problem else ""


def _problem(text: str, signs: str) -> str:
    if not text:
        return "is empty"
    strange = [sign for sign in text if not (sign.isascii() and (sign.isalnum() or sign in signs))]
    if strange:
        return f"may not hold {strange[0]!r}"
    if not (text[0].isalnum() and text[-1].isalnum()):
        return "must begin and end with a letter or digit"
    return ""


def from_annotations(annotations: Iterable[tuple[str, str]]) -> list[str]:
    """Return the devices that annotations ask for. Raises GPUError for what is no name."""
    found = []
    for key, value in annotations:
        if not key.startswith(PREFIX):
            continue
        for name in value.split(","):
            if not is_qualified(name):
                hint = f"--annotation {PREFIX}NAME=vendor.com/class=device,…"
                raise GPUError(f"annotation {key}: invalid CDI device name {name!r}", hint)
            found.append(name)
    return found
