"""The server of a live page: HTTP on the loopback address, with a secret in each address.

    GET  /SECRET/         the page as it is now
    GET  /SECRET/news?V.N server-sent events: what a page lacks of version V with N events (JSON)
    POST /SECRET/do       {"key": "next", "argument": ""}: a button, by the presenter's secret only

What other pages in the same browser could try is refused: another Host (DNS rebinding), another
Origin, a form's content type. Sources: HTML, "Server-sent events"; RFC 9110; RFC 6454.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from minirun.core.errors import UsageError
from minirun.core.keeping.numbers import whole
from minirun.faces.show.step.piped import KEYS
from minirun.faces.show.web.board import Board

ADDRESS = "127.0.0.1"
_MOST_BYTES = 16384
_MOST_STREAMS = 64
_NEWS = re.compile(r"news\?(\d{1,9})\.(\d{1,9})", re.ASCII)
_PAUSE = 0.1
"""Seconds between two news: what happens in the meantime comes together."""
_BEAT = 5.0
"""Seconds after which a page that waits hears that the server is there."""


class Server(ThreadingHTTPServer):
    """Serves one board; `press` is called with the key and the argument of each button."""

    daemon_threads = True

    def __init__(self, board: Board, press: Callable[[str, str], None], port: int = 0) -> None:
        """`port`: 0 for one of the kernel's choice. Raises OSError."""
        super().__init__((ADDRESS, port), _Handler)
        self.board = board
        self.press = press
        self.presenter, self.viewer = secrets.token_urlsafe(18), secrets.token_urlsafe(18)
        self.hosts = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}

    def start(self) -> None:
        """Serve, in a thread of its own."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def address(self, secret: str) -> str:
        """Return what is to be opened in a browser."""
        return f"http://{ADDRESS}:{self.server_port}/{secret}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has gone is no event."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "minirun", ""
    timeout = 20

    def do_GET(self) -> None:
        """Answer with the page, or with its news."""
        secret, what = self._parts()
        if not self._is_known(secret):
            return self._refuse(403)
        if what == "" and self.path.endswith("/"):
            try:
                text = self.server.board.page(presenter=self._is(secret, self.server.presenter))
            except UsageError:
                return self._refuse(503)
            return self._send(text.encode("utf-8", "backslashreplace"), "text/html; charset=utf-8")
        if known := _NEWS.fullmatch(what):
            return self._stream(int(known[1]), int(known[2]))
        return self._refuse(404)

    def do_POST(self) -> None:
        """Press a button."""
        secret, what = self._parts()
        own = f"http://{self.headers.get('Host', '')}"
        if not self._is_known(secret) or not self._is(secret, self.server.presenter):
            return self._refuse(403)
        if self.headers.get("Origin", own) != own:
            return self._refuse(403)
        if what != "do" or self.headers.get("Content-Type") != "application/json":
            return self._refuse(404)
        length = whole(self.headers.get("Content-Length", ""), 0, _MOST_BYTES)
        if length is None:
            return self._refuse(413)
        try:
            asked = json.loads(self.rfile.read(length))
            key, argument = asked["key"], asked["argument"]
        except (ValueError, KeyError, TypeError):
            return self._refuse(400)
        if key not in KEYS or not isinstance(argument, str):
            return self._refuse(400)
        self.server.press(key, argument)
        return self._send(b"{}", "application/json")

    def _parts(self) -> tuple[str, str]:
        secret, _, what = self.path.removeprefix("/").partition("/")
        return secret, what

    def _is_known(self, secret: str) -> bool:
        if self.headers.get("Host") not in self.server.hosts:
            return False
        presenter = self._is(secret, self.server.presenter)
        return self._is(secret, self.server.viewer) or presenter  # both are always compared

    def _is(self, secret: str, one: str) -> bool:
        return hmac.compare_digest(secret.encode(errors="replace"), one.encode())

    def _stream(self, version: int, had: int) -> None:
        board, over = self.server.board, False
        if board.streams >= _MOST_STREAMS:
            return self._refuse(503)
        self._head(200, "text/event-stream", None)
        board.streams += 1
        try:
            while not over:
                news = board.news(version, had, _BEAT)
                if news is None:
                    self.wfile.write(b": here\n\n")
                    continue
                live = news["live"]
                version, had, over = live["version"], live["had"], live["over"]
                self.wfile.write(f"data: {json.dumps(news)}\n\n".encode())
                time.sleep(_PAUSE)
        finally:
            board.streams -= 1
        return None

    def _refuse(self, status: int) -> None:
        self.close_connection = True
        self._head(status, "text/plain", 0)

    def _send(self, data: bytes, kind: str) -> None:
        self._head(200, kind, len(data))
        self.wfile.write(data)

    def _head(self, status: int, kind: str, length: int | None) -> None:
        self.send_response_only(status)
        headers = {
            "Content-Type": kind, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
        }  # fmt: skip
        for name, value in headers.items():
            self.send_header(name, value)
        if length is None:
            self.close_connection = True
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """The terminal is the run's."""
