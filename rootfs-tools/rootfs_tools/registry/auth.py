"""Tokens: how a registry learns who asks.

A registry answers the first request with 401 and a challenge, `Bearer realm="https://…",
service="…"`: at that address a token is to be had, with the user's credentials or without. The
scope that we ask for is always our own, never what the challenge says. The realm is taken from the
registry itself, over the same trusted connection: over TLS, or from one that the user's settings
call insecure. Source: the distribution project's "Token Authentication Specification".
"""

import base64
import json
import re
import threading
from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlencode, urlsplit

from minirun.core.errors import ImageError
from rootfs_tools.registry import errors
from rootfs_tools.registry.credentials import Credentials

_PAIR = re.compile(r'([a-z_]{1,32})="([^"\\]{0,2048})"', re.IGNORECASE)
_TOKEN = re.compile(r"[\x21-\x7e]{1,65536}")
_LIMIT = 1 << 20
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Ask(Protocol):
    """Send one request and return status and body; nothing else goes with it."""

    def __call__(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[int, bytes]:
        """Return status and body. Raises ImageError."""


Find = Callable[[], Credentials | None]


class Auth:
    """What is sent to one registry as Authorization. Threads may share it."""

    def __init__(self, host: str, ask: Ask, find: Find, plain: Callable[[str], bool]) -> None:
        """`plain`: whether a token may be asked for over plain HTTP at this HOST[:PORT]."""
        self._host, self._ask, self._find, self._plain = host, ask, find, plain
        self._headers: dict[str, str] = {}
        self._lock = threading.Lock()

    def header(self, scope: str) -> str:
        """Return the value for a scope; "" as long as the registry has not asked for one."""
        return self._headers.get(scope, "")

    def renew(self, scope: str, challenges: list[str], used: str) -> bool:
        """Get what a 401 asks for; `used` was refused. Return False if there is nothing to give.

        Raises ImageError: wrong credentials, no token, or a realm that is not to be trusted.
        """
        with self._lock:
            if self.header(scope) != used:
                return True  # another thread has a new one
            found = self._answer(scope, challenges)
            if not found or found == used:
                return False
            self._headers[scope] = found
            return True

    def _answer(self, scope: str, challenges: list[str]) -> str:
        for challenge in challenges:
            kind, _, rest = challenge.strip().partition(" ")
            if kind.lower() == "bearer":
                return f"Bearer {self._token(scope, dict(_PAIR.findall(rest)))}"
        for challenge in challenges:
            given = self._find() if challenge.lower().startswith("basic") else None
            if given and not given.identity_token:
                return _basic(given)
        return ""

    def _token(self, scope: str, said: dict[str, str]) -> str:
        realm = said.get("realm", "")
        self._check(realm)
        wanted = {"service": said["service"]} if "service" in said else {}
        if scope:
            wanted["scope"] = scope
        given = self._find()
        if given and given.identity_token:
            form = {**wanted, "grant_type": "refresh_token", "client_id": "minirun"}
            form["refresh_token"] = given.identity_token
            status, body = self._ask("POST", realm, dict(_FORM), urlencode(form).encode())
        else:
            headers = {"Authorization": _basic(given)} if given else {}
            query = urlencode({**wanted, "scope": scope.split()}, doseq=True)
            url = f"{realm}{'&' if '?' in realm else '?'}{query}" if query else realm
            status, body = self._ask("GET", url, headers)
        return self._read(urlsplit(realm).netloc, status, body)

    def _check(self, realm: str) -> None:
        """Refuse a realm that a credential is not to be sent to. Raises ImageError."""
        try:
            parts = urlsplit(realm)
            sound = parts.scheme in ("http", "https") and parts.hostname and not parts.username
        except ValueError:
            sound = False
        if not sound or not realm.isprintable() or "#" in realm or " " in realm:
            raise ImageError(f"{self._host}: a token from {realm[:80]!r}: no address to ask at")
        if parts.scheme == "http" and not self._plain(parts.netloc):
            text = f"{self._host}: a token from {realm[:80]!r}: not over plain HTTP"
            raise ImageError(text, "only a registry that is insecure in registries.conf may")

    def _read(self, where: str, status: int, body: bytes) -> str:
        if status in (400, 401, 403):
            raise ImageError(
                f"{self._host}: unauthorized: incorrect username or password", _login(self._host)
            )
        if status != 200:
            raise errors.of_server(where, f"the token for {self._host}", status, body)
        try:
            document = json.loads(body)
            found = document.get("token") or document.get("access_token")
        except (ValueError, AttributeError, RecursionError):
            found = None
        if not isinstance(found, str) or not _TOKEN.fullmatch(found):
            raise ImageError(f"{where}: the answer has no token")
        return found


def _login(host: str) -> str:
    return f"minirun login {host}"


def _basic(given: Credentials) -> str:
    return "Basic " + base64.b64encode(f"{given.user}:{given.password}".encode()).decode()
