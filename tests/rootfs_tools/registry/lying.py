"""A registry that lies: an HTTP server that answers what a test puts into `routes`."""

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rootfs_tools.image_spec import MANIFESTS, digest_of

Handler = BaseHTTPRequestHandler
Answer = Callable[[Handler], None]


class Liar:
    """The server's address, what it answers by path, and what it was asked."""

    def __init__(self) -> None:
        self.routes: dict[str, Answer] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.host = ""

    def asked(self, part: str) -> list[dict[str, str]]:
        """Return the headers of the requests whose path has this part."""
        return [headers for path, headers in self.seen if part in path]

    def image(self, name: str, *layers: bytes, sizes: tuple[int, ...] = ()) -> list[str]:
        """Serve an image as NAME:1, without its layers; return the digests of these."""
        config = json.dumps({
            "os": "linux", "architecture": "amd64",
            "rootfs": {"type": "layers", "diff_ids": [digest_of(each) for each in layers]},
        }).encode()  # fmt: skip
        lengths = sizes or tuple(map(len, layers))
        found = [
            {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest_of(data),
             "size": size} for data, size in zip(layers, lengths, strict=True)
        ]  # fmt: skip
        manifest = json.dumps({
            "schemaVersion": 2, "mediaType": MANIFESTS[0], "layers": found,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json",
                       "digest": digest_of(config), "size": len(config)},
        }).encode()  # fmt: skip
        self.routes[f"/v2/{name}/manifests/1"] = reply(manifest, type=MANIFESTS[0])
        self.routes[f"/v2/{name}/blobs/{digest_of(config)}"] = reply(config)
        return [digest_of(each) for each in layers]


def reply(body: bytes = b"", status: int = 200, type: str = "", **headers: str) -> Answer:
    """Return an answer; headers by name, with _ for -."""

    def answer(request: Handler) -> None:
        request.send_response(status)
        if type:
            request.send_header("Content-Type", type)
        for key, value in headers.items():
            request.send_header(key.replace("_", "-"), value)
        request.send_header("Content-Length", str(len(body)))
        request.send_header("Connection", "close")
        request.end_headers()
        if getattr(request, "command", "") != "HEAD":
            request.wfile.write(body)

    return answer


def once(first: Answer, then: Answer) -> Answer:
    """Return an answer that differs the second time."""
    left = [first]
    return lambda request: (left.pop() if left else then)(request)


@contextlib.contextmanager
def liar(tls: Path | None = None) -> Iterator[Liar]:
    """Serve on a port of 127.0.0.1."""
    one = Liar()

    class Request(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        close_connection = True

        def do_GET(self) -> None:
            self.close_connection = True
            one.seen.append((self.path, dict(self.headers.items())))
            with contextlib.suppress(OSError):
                one.routes.get(self.path.partition("?")[0], reply(b"{}", 404))(self)

        do_POST = do_HEAD = do_PUT = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            pass  # a client that has gone

    with Server(("127.0.0.1", 0), Request) as server:
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(f"{tls}.crt", f"{tls}.key")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        one.host = f"127.0.0.1:{server.server_port}"
        one.routes["/v2/"] = reply(b"{}")
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield one
        finally:
            server.shutdown()
