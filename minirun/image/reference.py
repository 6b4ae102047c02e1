"""Image references: what `ubuntu`, `registry.example/team/app:1.2` or `debian@sha256:…` names.

The grammar and its defaults are those of the distribution project's reference package, which
docker, podman and containerd share: a first part with a dot, a colon or a capital, or `localhost`,
is a registry; without one it is docker.io, whose one-word names belong to `library/`; without tag
and digest the tag is `latest`. Errors are worded as docker words them. Simplified: a registry is a
host name or an IPv4 address, never an IPv6 address in brackets.
"""

from minirun.core.errors import ImageError
from minirun.core.record import Record

_DIGITS = frozenset("0123456789")
_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz") | _DIGITS
_ALNUM = _LOWER | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_TAG = _ALNUM | frozenset("_.-")
_HEX = frozenset("0123456789abcdef")
_DEFAULT = "docker.io"
_LIBRARY = "library/"


class Reference(Record):
    """A parsed reference: registry, path in it, and a tag or a digest (or both)."""

    domain: str
    path: str
    tag: str
    digest: str = ""

    def familiar(self) -> str:
        """The name as people write it: without docker.io and library/, without tag and digest."""
        if self.domain != _DEFAULT:
            return f"{self.domain}/{self.path}"
        return self.path.removeprefix(_LIBRARY)

    def __str__(self) -> str:
        """The name as docker prints it: ubuntu:latest, debian@sha256:…."""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.familiar()}{tag}" + (f"@{self.digest}" if self.digest else "")


def parse(text: str) -> Reference:
    """Return the reference that `text` spells, with docker's defaults filled in.

    Raises ImageError, in docker's words, for everything else.
    """
    if len(text) == 64 and set(text) <= _HEX:
        raise ImageError(
            f"invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"
        )
    domain, rest = _split_domain(text)
    name = rest.partition(":")[0]
    if name.lower() != name:
        raise ImageError(f"invalid reference format: repository name ({name}) must be lowercase")
    rest, at, digest = rest.partition("@")
    path, colon, tag = rest.partition(":")
    sound = (
        _is_domain(domain)
        and all(map(_is_component, path.split("/")))
        and (not colon or _is_tag(tag))
        and (not at or _is_digest(digest))
    )
    if not sound:
        raise ImageError(f'invalid reference format: "{text}"', "NAME, NAME:TAG or NAME@sha256:HEX")
    if len(domain) + 1 + len(path) > 255:
        raise ImageError(
            "invalid reference format: repository name must not be more than 255 characters"
        )
    return Reference(domain, path, tag if colon or at else "latest", digest)


def _split_domain(text: str) -> "tuple[str, str]":
    first, slash, rest = text.partition("/")
    is_domain = slash and (
        first == "localhost" or "." in first or ":" in first or first.lower() != first
    )
    if not is_domain:
        first, rest = _DEFAULT, text
    if first == "index.docker.io":
        first = _DEFAULT
    if first == _DEFAULT and "/" not in rest:
        rest = _LIBRARY + rest
    return first, rest


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
