"""One HTTP request: over which proxy, with which certificates, for how long, how often.

urllib3 is used here alone. Its own redirects, retries and decoding are off: who may be asked again,
and with what, is decided by the client; a body is taken as it is on the wire, so no
Content-Encoding can make much out of little.
"""

import ipaddress
import threading
import time
from collections.abc import Mapping
from typing import IO, NamedTuple, Protocol, cast
from urllib.parse import urlsplit
from urllib.request import (  # type: ignore[attr-defined]
    getproxies_environment,
    proxy_bypass_environment,
)

import urllib3
from urllib3 import exceptions as http
from urllib3.response import BaseHTTPResponse

import minirun
from minirun.core.errors import ImageError
from rootfs_tools.registry import trust
from rootfs_tools.registry.bounded import POOLS
from rootfs_tools.registry.errors import Broken, of_network
from rootfs_tools.registry.probe import probe

AGAIN = (429, 500, 502, 503, 504)
_PORTS = {"http": 80, "https": 443}
BACKOFF = 0.25
"""Seconds; doubled at each attempt."""
_CHUNK = 64 << 10


class Patience(NamedTuple):
    """For how long a registry is waited for: seconds, and a number of attempts."""

    connect: float = 10
    read: float = 60
    """Without a byte."""
    document: float = 120
    """For a whole document, however it drips."""
    wait: float = 30
    """The longest Retry-After that is heeded; a longer one is an error."""
    attempts: int = 4
    hasty: float = 0
    """If not 0: how long to wait for the first answer of all, where there is another way."""


class Stream(Protocol):
    """A body that is sent as it is read."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes; none at the end."""

    def rewind(self) -> None:
        """Go back to the begin."""


RequestBody = bytes | Stream | None
Request = tuple[str, str, Mapping[str, str], RequestBody]
"""Method, address, headers, body."""


class Transport:
    """Connections to any number of hosts, kept open until `close`. Threads may share it."""

    def __init__(self, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()
        self.answered = False
        """Some host has sent an answer by HTTP."""
        self._lock = threading.Lock()
        self._pools: dict[tuple[str, str, bool], urllib3.PoolManager] = {}

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: RequestBody = None,
        insecure: bool = False,
    ) -> BaseHTTPResponse:
        """Return the answer, its body not yet read; ask again if the host is busy.

        A Stream is sent once: what its host made of a part of it is not known.

        Raises ImageError: no connection (Unreachable), no TLS where it is needed.
        """
        request = (method, url, headers, body)
        once = body is not None and not isinstance(body, bytes)
        for attempt in range(1, 1 if once else self.patience.attempts):
            pause = BACKOFF * 2**attempt
            try:
                answer = self._once(request, insecure)
            except Broken:
                time.sleep(pause)
                continue
            if answer.status not in AGAIN:
                return answer
            pause = _asked_to_wait(answer, pause)
            if pause > self.patience.wait:
                return answer
            answer.close()
            time.sleep(pause)
        return self._once(request, insecure)

    def _once(self, request: Request, insecure: bool) -> BaseHTTPResponse:
        method, url, headers, body = request
        parts = urlsplit(url)
        pool, proxy = self._pool(parts.scheme, parts.netloc, insecure)
        read = self.patience.read
        if self.patience.hasty and not self.answered:
            read = min(read, 2 * self.patience.hasty)
            at = urlsplit(proxy or url)
            probe(at.hostname or "", at.port or _PORTS[at.scheme], self.patience.hasty)
        if body is not None and not isinstance(body, bytes):
            body.rewind()
        limits = urllib3.Timeout(connect=self.patience.connect, read=read)
        try:
            answer = pool.request(
                method, url, body=cast("bytes | IO[bytes] | None", body),
                headers={**_HEADERS, **headers}, timeout=limits, retries=False, redirect=False,
                preload_content=False, decode_content=False,
            )  # fmt: skip
        except (http.HTTPError, OSError) as error:
            raise of_network(parts.netloc, error) from None
        except ValueError as error:  # an address that a server made up
            raise ImageError(f"{parts.netloc}: {error}") from None
        self.answered = True
        return answer

    def _pool(self, scheme: str, host: str, insecure: bool) -> tuple[urllib3.PoolManager, str]:
        """Return the connections to a host, and the proxy that they run over."""
        proxies = getproxies_environment()
        proxy = proxies.get(scheme) or proxies.get("all") or ""
        if is_loopback(host) or proxy_bypass_environment(host, proxies):
            proxy = ""
        if proxy and "://" not in proxy:
            proxy = f"http://{proxy}"
        key = (host, proxy, insecure)
        with self._lock:
            if key not in self._pools:
                self._pools[key] = _manager(host, proxy, insecure)
            return self._pools[key], proxy

    def document(self, host: str, answer: BaseHTTPResponse, limit: int) -> bytes:
        """Return the body of an answer. Raises ImageError: above `limit` bytes, or too slow."""
        end = time.monotonic() + self.patience.document
        data = bytearray()
        try:
            while chunk := answer.read1(_CHUNK):
                data += chunk
                if len(data) > limit:
                    raise ImageError(f"{host}: a document of more than {limit} bytes")
                if time.monotonic() > end:
                    raise ImageError(f"{host}: the registry stalls: a document takes too long")
        except (http.HTTPError, OSError) as error:
            answer.close()
            raise of_network(host, error) from None
        except ImageError:
            answer.close()
            raise
        answer.release_conn()
        return bytes(data)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for pool in self._pools.values():
                pool.clear()
            self._pools.clear()


def _asked_to_wait(answer: BaseHTTPResponse, otherwise: float) -> float:
    """Return the seconds of Retry-After."""
    said = answer.headers.get("Retry-After")
    try:
        return urllib3.Retry().parse_retry_after(said) if said else otherwise
    except (http.HTTPError, ValueError, OverflowError):
        return otherwise


def is_loopback(host: str) -> bool:
    """Return True if HOST or HOST:PORT is this machine by its name or address."""
    name = (host if host.endswith("]") else host.rpartition(":")[0] or host).strip("[]")
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


_HEADERS = {"User-Agent": f"minirun/{minirun.__version__}", "Accept-Encoding": "identity"}


def _manager(host: str, proxy: str, insecure: bool) -> urllib3.PoolManager:
    context = trust.context(host, insecure)
    if insecure:  # the user's settings say so: no need to be told each time
        urllib3.disable_warnings(http.InsecureRequestWarning)
    if not proxy:
        manager = urllib3.PoolManager(num_pools=2, maxsize=8, ssl_context=context)
        manager.pool_classes_by_scheme = POOLS
        return manager
    try:
        user = urllib3.util.parse_url(proxy).auth
        given = urllib3.make_headers(proxy_basic_auth=user) if user else None
        manager = urllib3.ProxyManager(
            proxy, num_pools=2, maxsize=8, ssl_context=context, proxy_headers=given
        )
    except (http.HTTPError, ValueError) as error:
        raise ImageError(f"proxy: {error}", "see HTTPS_PROXY") from None
    manager.pool_classes_by_scheme = POOLS
    return manager
