"""Images, as a start needs them: what `ubuntu` names, and where its layers lie.

    store       from a name to the directories of its layers: all that `run` imports
    workshop    what minirun asks of the package rootfs_tools, which makes and fetches images

Here is the name. Nothing in an image is ever trusted.

A name is `ubuntu`, `registry.example/team/app:1.2` or `debian@sha256:…`. The defaults are those of
the distribution project's reference package, which docker, podman and containerd share: a first
part with a dot, a colon or a capital, or `localhost`, is a registry; without one it is docker.io,
whose one-word names belong to `library/`; without tag and digest the tag is `latest`. Whether a
name is spelt right is asked of rootfs_tools.grammar, where one is given to an image; a look-up
needs no such check.

    store      from a reference to the layers, for `run`
    workshop   the calls by which minirun reaches rootfs_tools, each imported when it is called
"""

from __future__ import annotations

from minirun.core.keeping.record import Record

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


def split(text: str) -> Reference:
    """Return the parts of a reference, with docker's defaults filled in."""
    domain, rest = _split_domain(text)
    rest, at, digest = rest.partition("@")
    path, colon, tag = rest.partition(":")
    return Reference(domain, path, tag if colon or at else "latest", digest)


def _split_domain(text: str) -> tuple[str, str]:
    """Return (registry, the rest) of a reference; docker.io and library/ are filled in."""
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
