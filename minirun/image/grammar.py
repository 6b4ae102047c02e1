"""Whether an image reference is spelt right, by the grammar of the distribution project's package.

Errors are worded as docker words them. Simplified: a registry is a host name or an IPv4 address,
never an IPv6 address in brackets.
"""

from minirun.core.errors import ImageError
from minirun.image import Reference, split

_DIGITS = frozenset("0123456789")
_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz") | _DIGITS
_ALNUM = _LOWER | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_TAG = _ALNUM | frozenset("_.-")
_HEX = frozenset("0123456789abcdef")


def parse(text: str) -> Reference:
    """Return the reference that `text` spells, with docker's defaults filled in.

    Raises ImageError, in docker's words, for everything else.
    """
    if len(text) == 64 and set(text) <= _HEX:
        raise ImageError(
            f"invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"
        )
    found = split(text)
    domain, path, tag, digest = found
    if path.lower() != path:
        raise ImageError(f"invalid reference format: repository name ({path}) must be lowercase")
    sound = (
        _is_domain(domain)
        and all(map(_is_component, path.split("/")))
        and (_is_tag(tag) or (digest and not tag and ":@" not in text))
        and (_is_digest(digest) or "@" not in text)
    )
    if not sound:
        raise ImageError(f'invalid reference format: "{text}"', "NAME, NAME:TAG or NAME@sha256:HEX")
    if len(domain) + 1 + len(path) > 255:
        raise ImageError(
            "invalid reference format: repository name must not be more than 255 characters"
        )
    return found


def _is_domain(text: str) -> bool:
    host, colon, port = text.partition(":")
    if colon and not (port and set(port) <= _DIGITS):
        return False
    return all(
        label and set(label) <= _ALNUM | {"-"} and label[0] != "-" and label[-1] != "-"
        for label in host.split(".")
    )


def _is_component(text: str) -> bool:
    """One part of a path: lower-case words joined by one dot, one or two _, or any number of -."""
    if not text or not set(text) <= _LOWER | frozenset("._-"):
        return False
    if text[0] not in _LOWER or text[-1] not in _LOWER:
        return False
    joints = "".join(" " if letter in _LOWER else letter for letter in text).split()
    return all(joint in (".", "_", "__") or set(joint) == {"-"} for joint in joints)


def _is_tag(text: str) -> bool:
    return 0 < len(text) <= 128 and set(text) <= _TAG and text[0] not in ".-"


def _is_digest(text: str) -> bool:
    algorithm, _, value = text.partition(":")
    return algorithm == "sha256" and len(value) == 64 and set(value) <= _HEX
