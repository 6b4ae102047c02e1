"""`minirun push`: an image of the store goes to a registry.

A layer that the registry has is not sent again, and one that it has in another repository is taken
from there (a mount). The rest goes up whole, POST and then PUT; the manifest comes last, so a push
that breaks off leaves no image. The registry says where a layer is sent to: the credentials go with
it only to the registry itself.
Source: the distribution project's spec, "Push".
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import BinaryIO
from urllib.parse import urlencode, urlsplit

from urllib3.response import BaseHTTPResponse

from minirun.core.errors import ImageError
from minirun.image import Reference
from rootfs_tools import catalogue
from rootfs_tools.archives import saving
from rootfs_tools.grammar import parse
from rootfs_tools.image_spec import OCI_CONFIG, Descriptor, digest_of
from rootfs_tools.registry import settings
from rootfs_tools.registry.client import Client
from rootfs_tools.registry.errors import Broken
from rootfs_tools.registry.transport import AGAIN, BACKOFF, Patience, Transport
from rootfs_tools.take import THREADS, LayerObserver, LayerStep

_CREATED, _ACCEPTED = 201, 202
_LIMIT = 64 << 10
"""Bytes of an answer's body, of which nothing is needed."""

Open = Callable[[], BinaryIO]


def destination(name: str, wanted: str = "") -> Reference:
    """Return where an image goes: to its own name, or to the name `wanted`. Raises ImageError."""
    found = parse((wanted or name).removeprefix("docker://"))
    if found.digest:
        raise ImageError(f"cannot push a digest reference: {found}", "as in NAME:TAG")
    return found


def push(
    store: str,
    name: str,
    to: Reference,
    notify: LayerObserver | None = None,
    patience: Patience | None = None,
) -> Descriptor:
    """Send the image `name` to a registry; return the descriptor of its manifest.

    Raises ImageError, OSError.
    """
    origin = catalogue.resolve(store, name).origin
    full = f"{to.domain}/{to.path}:{to.tag}"
    endpoint = settings.load().endpoints(full, to)[-1]
    transport = Transport(patience)
    try:
        with saving.collected(store, [name]) as (image,):
            source = _repository(origin, endpoint)
            return _Push(Client(endpoint, transport), source, notify or (lambda _: None)).image(
                image, to.tag
            )
    finally:
        transport.close()


def _repository(origin: str, endpoint: settings.Endpoint) -> str:
    """Return another repository of the same registry that the image was pulled from, or ""."""
    host, _, rest = origin.partition("/")
    folder, slash, last = rest.partition("@")[0].rpartition("/")
    path = f"{folder}{slash}{last.partition(':')[0]}"
    return path if host == endpoint.host and path != endpoint.path else ""


class _Push:
    """One image on its way out. Threads share it."""

    def __init__(self, client: Client, source: str, notify: LayerObserver) -> None:
        self._client, self._source, self._notify = client, source, notify
        self._path = client.endpoint.path
        self._scope = f"repository:{self._path}:pull,push"

    def image(self, image: saving.SavedImage, tag: str) -> Descriptor:
        """Send layers and configuration, then the manifest."""
        layers = {layer.descriptor.digest: layer for layer in image.layers}
        with ThreadPoolExecutor(THREADS) as pool:
            sent = [pool.submit(self._blob, each.descriptor, each.opened)
                    for each in layers.values()]  # fmt: skip
            try:
                for each in sent:
                    each.result()
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        config = Descriptor(OCI_CONFIG, digest_of(image.config), len(image.config))
        self._blob(config, lambda: BytesIO(image.config), shown=False)
        found = Descriptor(image.manifest_type, digest_of(image.manifest), len(image.manifest))
        url = self._url(f"manifests/{tag}")
        headers = {"Content-Type": image.manifest_type}
        answer = self._client.request("PUT", url, headers, self._scope, image.manifest)
        if self._done(answer, _CREATED).headers.get("Docker-Content-Digest", found.digest) != (
            found.digest
        ):
            raise ImageError(f"{self._client.endpoint}: the registry has changed the manifest")
        return found

    def _blob(self, blob: Descriptor, opened: Open, *, shown: bool = True) -> None:
        """Send a blob, unless it is there."""
        kind = "present" if self._is_there(blob) else self._mounted_or_sent(blob, opened, shown)
        if shown:
            self._notify(LayerStep(kind, blob.digest, blob.size, blob.size))

    def _is_there(self, blob: Descriptor) -> bool:
        url = self._url(f"blobs/{blob.digest}")
        answer = self._client.request("HEAD", url, {}, self._scope)
        if answer.status not in (200, 404):
            raise self._refusal(answer)
        self._client.transport.document(self._client.host, answer, _LIMIT)
        return answer.status == 200

    def _mounted_or_sent(self, blob: Descriptor, opened: Open, shown: bool) -> str:
        """Have the registry take a blob from its other repository, or send it; say which."""
        attempts = self._client.transport.patience.attempts
        for attempt in range(1, attempts + 1):
            place = self._begin(blob)
            if not place:
                return "mounted"
            try:
                with opened() as stream:
                    report = self._notify if shown else lambda _: None
                    answer = self._put(place, blob, Upload(stream, blob, report))
            except Broken:
                if attempt == attempts:
                    raise
            else:
                if attempt == attempts or answer.status not in AGAIN:
                    self._done(answer, _CREATED)
                    return "pushed"
                answer.close()
            time.sleep(BACKOFF * 2**attempt)
        raise AssertionError("not reached")

    def _begin(self, blob: Descriptor) -> str:
        """Return where a blob is sent to; "" if the registry had it elsewhere, and has it now."""
        answer = self._mount(blob) if self._source else None
        if answer and answer.status == _CREATED:
            self._done(answer, _CREATED)
            return ""
        if answer and answer.status == _ACCEPTED:
            return self._place(answer)
        if answer:
            answer.close()  # it knows no mounts
        url = self._url("blobs/uploads/")
        answer = self._client.request("POST", url, {}, self._scope, b"")
        return self._place(self._done(answer, _ACCEPTED))

    def _mount(self, blob: Descriptor) -> BaseHTTPResponse | None:
        """Ask for a blob of the other repository; None if that is closed to us."""
        query = urlencode({"mount": blob.digest, "from": self._source})
        scope = f"{self._scope} repository:{self._source}:pull"
        try:
            return self._client.request("POST", self._url(f"blobs/uploads/?{query}"), {}, scope)
        except ImageError:
            return None

    def _place(self, answer: BaseHTTPResponse) -> str:
        self._done(answer, _ACCEPTED)
        place = answer.headers.get("Location", "")
        if not place:
            raise ImageError(f"{self._client.host}: the registry does not say where to send it")
        return self._client.target(self._url("blobs/uploads/"), place)

    def _put(self, place: str, blob: Descriptor, body: Upload) -> BaseHTTPResponse:
        parts = urlsplit(place)
        query = "&".join(filter(None, [parts.query, urlencode({"digest": blob.digest})]))
        url = parts._replace(query=query, fragment="").geturl()
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(blob.size)}
        return self._client.put(url, headers, self._scope, body)

    def _done(self, answer: BaseHTTPResponse, status: int) -> BaseHTTPResponse:
        """Return an answer of this status, its body read. Raises ImageError for another one."""
        if answer.status != status:
            raise self._refusal(answer)
        self._client.transport.document(self._client.host, answer, _LIMIT)
        return answer

    def _refusal(self, answer: BaseHTTPResponse) -> ImageError:
        return self._client.refusal(answer, str(self._client.endpoint), self._scope, pushing=True)

    def _url(self, path: str) -> str:
        return f"{self._client.base()}/v2/{self._path}/{path}"


class Upload:
    """A layer that is sent, and how far that is; it may be sent again from its begin."""

    def __init__(self, stream: BinaryIO, blob: Descriptor, notify: LayerObserver) -> None:
        self._stream, self._blob, self._notify = stream, blob, notify
        self._done = 0

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes; none at the end. Raises OSError."""
        chunk = self._stream.read(size)
        self._done += len(chunk)
        self._notify(LayerStep("pushing", self._blob.digest, self._done, self._blob.size))
        return chunk

    def rewind(self) -> None:
        """Go back to the begin."""
        self._stream.seek(0)
        self._done = 0
