"""Whether an image reference is spelt right, by the grammar of the distribution project's package.

Errors are worded as docker words them. Simplified: a registry is a host name or an IPv4 address,
never an IPv6 address in brackets.
"""

import re

from minirun.core.errors import ImageError
from minirun.image import Reference, split

_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*(?::[0-9]+)?")
_COMPONENT = "[a-z0-9]+(?:(?:[.]|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(f"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile("[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_ID = re.compile("[0-9a-f]{64}")
_DIGEST = re.compile(f"sha256:{_ID.pattern}")


def parse(text: str) -> Reference:
    """Return the reference that `text` spells, with docker's defaults filled in.

    Raises ImageError, in docker's words, for everything else.
    """
    if _ID.fullmatch(text):
        reason = "cannot specify 64-byte hexadecimal strings"
        raise ImageError(f"invalid repository name ({text}), {reason}")
    found = split(text)
    domain, path, tag, digest = found
    if path.lower() != path:
        raise ImageError(f"invalid reference format: repository name ({path}) must be lowercase")
    sound = (
        _DOMAIN.fullmatch(domain)
        and _PATH.fullmatch(path)
        and (_TAG.fullmatch(tag) or (digest and not tag and ":@" not in text))
        and (_DIGEST.fullmatch(digest) or "@" not in text)
    )
    if not sound:
        raise ImageError(f'invalid reference format: "{text}"', "NAME, NAME:TAG or NAME@sha256:HEX")
    if len(domain) + 1 + len(path) > 255:
        reason = "repository name must not be more than 255 characters"
        raise ImageError(f"invalid reference format: {reason}")
    return found


def new_name(text: str) -> Reference:
    """Return the reference that an image is to get. Raises ImageError, also for a digest."""
    found = parse(text)
    if found.digest:
        raise ImageError("refusing to create a tag with a digest reference", "as in NAME:TAG")
    return found
