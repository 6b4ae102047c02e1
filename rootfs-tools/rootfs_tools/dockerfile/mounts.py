"""What RUN --mount=… says: type, target and the options that a type knows.

    type=bind    a file or directory of the build context, or of `from`, a stage or an image
    type=cache   a directory that stays from build to build; with `from` it begins with that content
    type=tmpfs   memory
    type=secret  what `build --secret` gives: a file, or with `env` a variable
    type=ssh     the agent of `build --ssh`

Source: buildkit's frontend/dockerfile/instructions/commands_runmount.go.
"""

from __future__ import annotations

from collections.abc import Callable

from minirun.core.errors import ImageError

_SHORT = {
    "dst": "target", "destination": "target", "src": "source", "ro": "readonly", "rw": "readwrite",
}  # fmt: skip
_SWITCHES = ("readonly", "readwrite", "required")
_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")
_ANY = {"type", "target", "readonly", "readwrite"}
_OWNER = {"id", "mode", "uid", "gid"}
_OPTIONS = {
    "bind": _ANY | {"source", "from"},
    "cache": _ANY | _OWNER | {"source", "from", "sharing"},
    "tmpfs": _ANY | {"size"},
    "secret": _ANY | _OWNER | {"source", "required", "env"},
    "ssh": _ANY | _OWNER | {"required"},
}
_NEED_TARGET = ("bind", "cache", "tmpfs")
SECRETS, AGENT = "/run/secrets", "/run/buildkit/ssh_agent"
"""Where secrets and sockets are, unless a target says otherwise."""


def parse(text: str, expand: Callable[[str], str]) -> dict[str, str]:
    """Return the options of one --mount: type, and what is given, by its long name.

    `expand` fills in variables. Switches are "true" or "". Raises ImageError.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        name = _SHORT.get(name.lower(), name.lower())
        if not equals and name not in _SWITCHES:
            raise ImageError(f"RUN --mount: invalid field {part!r}: must be a name=value pair")
        if name == "from" and "$" in value:
            text = "RUN --mount: 'from' has no variables"
            raise ImageError(text, "FROM $NAME AS other; from=other")
        value = expand(value) if equals else "true"
        found[name] = _switch(name, value) if name in _SWITCHES else value
    kind = found["type"] = found.get("type", "bind").lower()
    if kind not in _OPTIONS:
        raise ImageError(f"RUN --mount=type={kind}: not known", f"type={', '.join(_OPTIONS)}")
    unknown = sorted(set(found) - _OPTIONS[kind])
    if unknown:
        raise ImageError(f"RUN --mount: unexpected key {unknown[0]!r} for type={kind}")
    _check(kind, found)
    if found.pop("readwrite", "") == "true":
        found["readonly"] = ""
    elif kind == "bind":  # others are writable, if they can be, unless they say otherwise
        found.setdefault("readonly", "true")
    return found


def origins(values: list[str]) -> list[str]:
    """Return what the `from` of each --mount names; they have no variables."""
    parts = (part.partition("=") for text in values for part in text.split(","))
    return [value for name, _, value in parts if name.lower() == "from" and value]


def _check(kind: str, found: dict[str, str]) -> None:
    if kind in _NEED_TARGET and not found.get("target"):
        raise ImageError("RUN --mount: target is required")
    if found.get("sharing", "shared") not in ("shared", "private", "locked"):
        raise ImageError(f"RUN --mount: unsupported sharing value {found['sharing']!r}")
    if kind == "secret":
        if found.get("id") and found.get("source"):
            raise ImageError("RUN --mount: both source and id can't be set")
        base = found.get("target", "").rstrip("/").rpartition("/")[2]
        found["id"] = found.get("id") or found.pop("source", "") or base
        if not found["id"]:
            raise ImageError("RUN --mount: invalid secret mount: id or target is required")
    if kind == "ssh":
        found["id"] = found.get("id") or "default"


def _switch(name: str, value: str) -> str:
    if value not in (*_TRUE, *_FALSE):
        raise ImageError(f"RUN --mount: invalid value for {name}: {value}")
    return "true" if value in _TRUE else ""
