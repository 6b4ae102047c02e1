"""A token server for docker-registry: signs what it grants with a key of its own (RFC 7519)."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from required import installed
from tests.rootfs_tools.registry.real import PASSWORD, USER

IDENTITY = "an-identity-token"
SERVICE, ISSUER = "test registry", "test issuer"


class Tokens:
    """Anonymous users may pull what lies below public/; the user may do all."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.key, self.certificate = folder / "token.key", folder / "token.crt"
        argv = [installed("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes",
                "-days", "2", "-subj", "/CN=tokens", "-keyout", str(self.key),
                "-out", str(self.certificate)]  # fmt: skip
        subprocess.run(argv, check=True, capture_output=True)
        self.asked: list[tuple[str, str]] = []
        """Method and scope of each request."""
        self.stale = 0
        """So many tokens are given out that have expired."""
        self.realm = ""

    def configuration(self) -> dict[str, Any]:
        """Return the registry's section `auth`."""
        return {"token": {"realm": self.realm, "service": SERVICE, "issuer": ISSUER,
                          "rootcertbundle": str(self.certificate)}}  # fmt: skip

    @contextlib.contextmanager
    def serve(self) -> Iterator[Tokens]:
        """Answer, on a port of 127.0.0.1."""
        tokens = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                given = self.headers.get("Authorization", "")
                right = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
                if given and given != f"Basic {right}":
                    return self.send_error(401)
                query = parse_qs(urlsplit(self.path).query)
                return self._answer(" ".join(query.get("scope", [""])), bool(given))

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                if form["grant_type"] != ["refresh_token"] or form["refresh_token"] != [IDENTITY]:
                    return self.send_error(401)
                return self._answer(form.get("scope", [""])[0], True)

            def _answer(self, scope: str, known: bool) -> None:
                tokens.asked.append((self.command, scope))
                body = json.dumps({"token": tokens.sign(scope, known)}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.realm = f"http://127.0.0.1:{server.server_port}/token"
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            try:
                yield self
            finally:
                server.shutdown()

    def sign(self, scope: str, known: bool) -> str:
        """Return a JSON Web Token."""
        access = []
        for each in filter(None, scope.split(" ")):
            kind, name, actions = each.split(":")
            if known or (name.startswith("public/") and actions == "pull"):
                access.append({"type": kind, "name": name, "actions": actions.split(",")})
        now = int(time.time()) - (3600 if self.stale > 0 else 0)
        self.stale -= 1
        claims = {"iss": ISSUER, "sub": USER, "aud": SERVICE, "exp": now + 300, "nbf": now - 10,
                  "iat": now, "jti": "1", "access": access}  # fmt: skip
        chain = "".join(self.certificate.read_text().splitlines()[1:-1])
        head = {"typ": "JWT", "alg": "RS256", "x5c": [chain]}
        text = f"{_encoded(json.dumps(head).encode())}.{_encoded(json.dumps(claims).encode())}"
        argv = [installed("openssl"), "dgst", "-sha256", "-sign", str(self.key)]
        done = subprocess.run(argv, input=text.encode(), check=True, capture_output=True)
        return f"{text}.{_encoded(done.stdout)}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
