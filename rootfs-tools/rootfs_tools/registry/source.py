"""An image of a registry, as rootfs_tools.take wants it: a Source.

The mirrors that the user's settings name are asked first, in order, then the registry itself: the
first that has the image serves it, and for a blob that it lacks the others are asked. All verify
by digest, so which one answers changes nothing.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, TypeVar, cast

from urllib3 import exceptions as http
from urllib3.response import BaseHTTPResponse

from minirun.core.errors import ImageError
from minirun.image import Reference
from rootfs_tools.image_spec import DOCUMENT_LIMIT, INDEXES, MANIFESTS, Descriptor, digest_of
from rootfs_tools.registry.client import Client
from rootfs_tools.registry.errors import Unreachable, of_network
from rootfs_tools.registry.settings import Endpoint
from rootfs_tools.registry.transport import Transport

_ACCEPT = {"Accept": ", ".join((*INDEXES, *MANIFESTS))}
_BREAKS = 5
"""How often a blob may break off without a byte in between."""
_ELSEWHERE = ("foreign", "nondistributable")
"""Layers that a registry does not hold, but names an address for: docker's of Windows."""

T = TypeVar("T")


class Registry:
    """A Source: one image, by its mirrors and its registry. Threads may share it."""

    def __init__(self, wanted: Reference, endpoints: list[Endpoint], transport: Transport) -> None:
        self._wanted = wanted
        self.transport = transport
        self._clients = [Client(each, transport) for each in endpoints]
        ending = f"@{wanted.digest}" if wanted.digest else f":{wanted.tag}"
        self.name = f"{endpoints[-1]}{ending}"
        self._written = str(wanted)

    def root(self) -> tuple[Descriptor, bytes]:
        """Return the index or manifest that the reference names. Raises ImageError."""
        return self._first(self._root)

    def document(self, wanted: Descriptor) -> bytes:
        """Return an index, manifest or configuration. Raises ImageError."""
        if wanted.media_type in (*INDEXES, *MANIFESTS):
            return self._first(lambda client: self._manifest(client, wanted.digest)[1])
        return self._first(lambda client: self._small(client, wanted))

    @contextmanager
    def blob(self, wanted: Descriptor, offset: int = 0) -> Iterator[BinaryIO]:
        """Open a layer for reading, from this byte on. Raises ImageError."""
        if any(word in wanted.media_type for word in _ELSEWHERE):
            text = f"{self.name}: a layer of type {wanted.media_type!r:.100} lies elsewhere"
            raise ImageError(text, "such images, of Windows, are not for Linux")
        stream = self._first(lambda client: Blob(client, wanted, offset, self._written))
        try:
            yield cast(BinaryIO, stream)
        finally:
            stream.close()

    def _first(self, ask: Callable[[Client], T]) -> T:
        """Return the first answer that is one; the next time its host is asked first.

        Raises what a host answered, rather than that another could not be reached.
        """
        failed: list[ImageError] = []
        for client in list(self._clients):
            try:
                found = ask(client)
            except ImageError as error:
                failed.append(error)
                continue
            if failed:
                self._clients = [client, *(each for each in self._clients if each is not client)]
            return found
        answers = [error for error in failed if not isinstance(error, Unreachable)]
        raise (answers or failed)[-1]

    def _root(self, client: Client) -> tuple[Descriptor, bytes]:
        media_type, data = self._manifest(client, self._wanted.digest or self._wanted.tag)
        found = digest_of(data)
        if self._wanted.digest not in ("", found):
            text = f"{client.endpoint}: manifest verification failed for digest"
            raise ImageError(f"{text} {self._wanted.digest}: it is {found}")
        return Descriptor(media_type, found, len(data)), data

    def _manifest(self, client: Client, reference: str) -> tuple[str, bytes]:
        path = client.endpoint.path
        answer = client.get(f"{path}/manifests/{reference}", _ACCEPT, _scope(client))
        if answer.status != 200:
            raise client.refusal(answer, self._written, _scope(client))
        media_type = answer.headers.get("Content-Type", "").partition(";")[0].strip()
        data = client.transport.document(client.host, answer, DOCUMENT_LIMIT)
        known = media_type in (*INDEXES, *MANIFESTS)
        return media_type if known else _media_type(data) or media_type, data

    def _small(self, client: Client, wanted: Descriptor) -> bytes:
        path = f"{client.endpoint.path}/blobs/{wanted.digest}"
        answer = client.get(path, {}, _scope(client))
        if answer.status != 200:
            raise client.refusal(answer, self._written, _scope(client), blob=wanted.digest)
        return client.transport.document(client.host, answer, min(wanted.size, DOCUMENT_LIMIT))


class Blob:
    """A layer that is read; a connection that breaks is made anew where it broke."""

    def __init__(self, client: Client, wanted: Descriptor, offset: int, name: str) -> None:
        self._client, self._wanted, self._name = client, wanted, name
        self._at, self._left = offset, _BREAKS
        self._answer = self._open()

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes; none at the end. Raises ImageError."""
        while True:
            try:
                chunk = self._answer.read(size if size >= 0 else 1 << 20)
            except (http.HTTPError, OSError) as error:
                self._again(error)
                continue
            if chunk:
                self._at += len(chunk)
                self._left = _BREAKS
            elif self._at < self._wanted.size:
                self._again(http.ProtocolError("it ends too early"))
                continue
            return chunk

    def close(self) -> None:
        """Give the connection back; one in the middle of a blob is closed."""
        if self._at != self._wanted.size:
            self._answer.close()
        self._answer.release_conn()

    def _again(self, error: http.HTTPError | OSError) -> None:
        self._answer.close()
        self._left -= 1
        if self._left <= 0:
            raise of_network(self._client.host, error) from None
        self._answer = self._open()

    def _open(self) -> BaseHTTPResponse:
        path = f"{self._client.endpoint.path}/blobs/{self._wanted.digest}"
        headers = {"Range": f"bytes={self._at}-"} if self._at else {}
        answer = self._client.get(path, headers, _scope(self._client))
        if answer.status == 206 and self._at:
            said = answer.headers.get("Content-Range", "")
            if not said.startswith(f"bytes {self._at}-"):
                answer.close()
                text = f"{self._client.host}: asked from byte {self._at}, got {said!r:.60}"
                raise ImageError(text)
        elif answer.status != 200:
            digest = self._wanted.digest
            raise self._client.refusal(answer, self._name, _scope(self._client), blob=digest)
        elif self._at:
            self._skip(answer)
        return answer

    def _skip(self, answer: BaseHTTPResponse) -> None:
        """Read what is here already: the registry knows no ranges."""
        left = self._at
        try:
            while left and (chunk := answer.read(min(left, 1 << 20))):
                left -= len(chunk)
        except (http.HTTPError, OSError) as error:
            answer.close()
            raise of_network(self._client.host, error) from None
        if left:
            raise ImageError(f"{self._client.host}: {self._wanted.digest[:19]} ends too early")


def _scope(client: Client) -> str:
    return f"repository:{client.endpoint.path}:pull"


def _media_type(data: bytes) -> str:
    """What a manifest says that it is, for registries that serve it as plain JSON."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    found = document.get("mediaType") if isinstance(document, dict) else None
    return found if isinstance(found, str) else ""
