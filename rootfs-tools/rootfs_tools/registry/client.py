"""One registry: how it is spoken to, who may see the credentials, where it may send us.

It is spoken to over TLS. One on this machine (127.0.0.0/8, localhost), and one that the user's
settings call insecure, may do without if it knows none. A redirect leads to http or https, never
from the second to the first, five times at most; the credentials stay behind at another host.
"""

import functools
import threading
from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

from urllib3.response import BaseHTTPResponse

from minirun.core.errors import ImageError
from rootfs_tools.registry import credentials, errors
from rootfs_tools.registry.auth import Auth
from rootfs_tools.registry.settings import Endpoint
from rootfs_tools.registry.transport import RequestBody, Transport, is_loopback

_REDIRECTS = (301, 302, 303, 307, 308)
_MOST = 5
_ERROR_LIMIT = 64 << 10
_TOKEN_LIMIT = 1 << 20
_RENEWALS = 2
_DOCKER = {"docker.io": "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}


class Client:
    """A registry as one user sees it. Threads may share it."""

    def __init__(
        self, endpoint: Endpoint, transport: Transport, given: credentials.Credentials | None = None
    ) -> None:
        """`given`: these credentials, instead of what the user's files have."""
        self.endpoint, self.transport = endpoint, transport
        self.host = _DOCKER.get(endpoint.host, endpoint.host)
        self._plain = endpoint.insecure or is_loopback(self.host)
        self._base = ""
        self._lock = threading.Lock()
        self._auth = Auth(endpoint.host, self._ask, functools.cache(
            lambda: given or credentials.find(endpoint.host, endpoint.path)
        ), self._plain_realm)  # fmt: skip

    def get(self, path: str, headers: Mapping[str, str], scope: str = "") -> BaseHTTPResponse:
        """GET /v2/`path`; the answer is not read yet."""
        return self.request("GET", f"{self.base()}/v2/{path}", headers, scope)

    def check(self) -> None:
        """Have the registry say whether it takes the credentials. Raises ImageError."""
        answer = self.request("GET", f"{self.base()}/v2/", {})
        if answer.status == 404:
            answer.close()
            raise errors.of_server(self.endpoint.host, "the registry's /v2/", 404, b"")
        if answer.status != 200:
            raise self.refusal(answer, self.endpoint.host)
        answer.close()

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        scope: str = "",
        body: RequestBody = None,
    ) -> BaseHTTPResponse:
        """Send a request with the user's token, and follow where it leads.

        `url` is one of this registry's own. Returns any answer but a redirect, and 401 only if the
        user has nothing to give. Raises ImageError.
        """
        for _ in range(_RENEWALS + 1):
            used = self._auth.header(scope)
            own = {"Authorization": used} if used else {}
            answer, at = self._follow(method, url, {**headers, **own}, body)
            if answer.status != 401 or _place(at) != _place(url):
                break
            challenges = answer.headers.getlist("WWW-Authenticate")
            narrow = used and any("insufficient_scope" in each for each in challenges)
            if narrow or not self._renewed(answer, scope, challenges, used):
                break
        return answer

    def put(
        self, url: str, headers: Mapping[str, str], scope: str, body: RequestBody
    ) -> BaseHTTPResponse:
        """PUT to an address that the registry named; another host gets no credentials of ours.

        Raises ImageError.
        """
        if urlsplit(url)[:2] == urlsplit(self.base())[:2]:
            return self.request("PUT", url, headers, scope, body)
        return self._send("PUT", url, headers, body)

    def _renewed(
        self, answer: BaseHTTPResponse, scope: str, challenges: list[str], used: str
    ) -> bool:
        """Return True if there is another token to try; then this answer is done with."""
        try:
            renewed = self._auth.renew(scope, challenges, used)
        except ImageError:
            answer.close()
            raise
        if renewed:
            answer.close()
        return renewed

    def base(self) -> str:
        """Return how the registry is addressed: https://HOST, or http://HOST where that is allowed.

        Raises ImageError.
        """
        with self._lock:
            if not self._base:
                self._base = self._find_base()
            return self._base

    def _find_base(self) -> str:
        secure = f"https://{self.host}"
        if not self._plain:
            return secure
        try:
            self._send("GET", f"{secure}/v2/", {}).close()
        except errors.NoTLS:
            return f"http://{self.host}"
        except errors.Unreachable:
            if ":" in self.host:
                raise
            return f"http://{self.host}"
        return secure

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: RequestBody = None
    ) -> BaseHTTPResponse:
        insecure = self.endpoint.insecure and _place(url) == self.host
        return self.transport.send(method, url, headers, body, insecure)

    def _follow(
        self, method: str, url: str, headers: Mapping[str, str], body: RequestBody
    ) -> tuple[BaseHTTPResponse, str]:
        """Return the answer, and who gave it."""
        for _ in range(_MOST + 1):
            answer = self._send(method, url, headers, body)
            target = answer.headers.get("Location") if answer.status in _REDIRECTS else None
            if target is None or method not in ("GET", "HEAD"):
                return answer, url
            answer.close()
            following = self.target(url, target)
            if urlsplit(following)[:2] != urlsplit(url)[:2]:
                headers = {k: v for k, v in headers.items() if k.lower() != "authorization"}
            url = following
        raise ImageError(f"{self.host}: more than {_MOST} redirects")

    def target(self, url: str, target: str) -> str:
        """Return where a redirect leads. Raises ImageError if we do not go there."""
        try:
            found = urljoin(url, target)
            parts = urlsplit(found)
            sound = parts.scheme in ("http", "https") and bool(parts.hostname)
            sound = sound and not parts.username and (parts.port or 1) > 0
        except ValueError:
            sound = False
        if not sound or not found.isprintable():
            raise ImageError(f"{self.host}: a redirect to {target[:80]!r}: not followed")
        if parts.scheme == "http" and url.startswith("https:"):
            raise ImageError(f"{self.host}: a redirect from TLS to {target[:80]!r}: not followed")
        return found

    def _ask(
        self, method: str, url: str, headers: dict[str, str], body: RequestBody = None
    ) -> tuple[int, bytes]:
        """Ask a token server."""
        answer, at = self._follow(method, url, headers, body)
        return answer.status, self.transport.document(_place(at), answer, _TOKEN_LIMIT)

    def _plain_realm(self, host: str) -> bool:
        return self.endpoint.insecure or (is_loopback(self.host) and is_loopback(host))

    def refusal(
        self, answer: BaseHTTPResponse, name: str, scope: str = "", *,
        pushing: bool = False, blob: str = "",
    ) -> ImageError:  # fmt: skip
        """Return what an answer with an error means; its body is read. `blob`: see of_answer."""
        try:
            body = self.transport.document(self.host, answer, _ERROR_LIMIT)
        except ImageError:
            body = b""
        has_token = answer.status == 401 and self._auth.header(scope).startswith("Bearer ")
        if pushing:
            status = 403 if has_token else answer.status
            return errors.of_push(self.endpoint.host, name, status, body)
        if has_token:
            return errors.denied(self.endpoint.host, name)
        return errors.of_answer(self.endpoint.host, name, answer.status, body, blob)


def _place(url: str) -> str:
    return urlsplit(url).netloc
