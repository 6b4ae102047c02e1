"""A pull through a proxy: HTTPS_PROXY, NO_PROXY, its password, and one that refuses."""

import base64
import re
import select
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from minirun.core.errors import ImageError
from rootfs_tools.registry.errors import Unreachable
from rootfs_tools.registry.pull import pull
from rootfs_tools.registry.transport import Patience, is_loopback
from tests.rootfs_tools.registry import real

NAME = "registry.test"
"""Known to the proxy alone: .test is in no DNS (RFC 6761)."""
QUICK = Patience(connect=2, read=5, wait=0, attempts=1)


class Proxy(ThreadingHTTPServer):
    """Connects its clients to one registry, whatever the name they ask for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Client)
        self.asked: list[str] = []
        self.given: set[str] = set()
        self.password = ""
        self.registry = ("", 0)

    def address(self, user: str = "") -> str:
        return f"http://{user}127.0.0.1:{self.server_port}"


class _Client(BaseHTTPRequestHandler):
    server: Proxy

    def do_CONNECT(self) -> None:
        self.server.asked.append(self.path)
        given = self.headers.get("Proxy-Authorization", "")
        self.server.given.add(given)
        if self.server.password and self.server.password not in given:
            self.send_error(407)
            return
        with socket.create_connection(self.server.registry) as upstream:
            self.send_response(200)
            self.end_headers()
            self.wfile.flush()
            ends = {self.connection: upstream, upstream: self.connection}
            while True:
                for one in select.select(list(ends), [], [])[0]:
                    data = one.recv(65536)
                    if not data:
                        return
                    ends[one].sendall(data)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, real.Authority]]:
    """A registry with a certificate for NAME, filled, and its authority."""
    folder = tmp_path_factory.mktemp("registry")
    authority = real.Authority(folder / "authority")
    tls = authority.issue("registry", f"DNS:{NAME}")
    layout = real.layout(folder / "layout", {"hello": b"one"}, Cmd=["/hello"])
    with real.registry(folder / "r", tls=tls) as host:
        real.fill(host, "team/app:1", layout, "--dest-tls-verify=false")
        yield host, authority


@pytest.fixture
def proxy(
    registry: tuple[str, real.Authority], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Proxy]:
    real.no_settings(tmp_path, monkeypatch)
    folder = tmp_path / ".config/containers/certs.d" / NAME
    folder.mkdir(parents=True)
    (folder / "ca.crt").write_bytes(registry[1].certificate.read_bytes())
    with Proxy() as server:
        host, _, port = registry[0].partition(":")
        server.registry = (host, int(port))
        monkeypatch.setenv("HTTPS_PROXY", server.address())
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def test_a_pull_goes_over_the_proxy(proxy: Proxy, tmp_path: Path) -> None:
    image = pull(str(tmp_path / "store"), f"{NAME}/team/app:1", patience=QUICK)
    assert Path(image.layers[0], "hello").read_bytes() == b"one"
    assert set(proxy.asked) == {f"{NAME}:443"}
    assert proxy.given == {""}


def test_its_password(proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy.password = base64.b64encode(b"mona:secret").decode()
    with pytest.raises(Unreachable, match=r"the proxy: .*407") as caught:
        pull(str(tmp_path / "store"), f"{NAME}/team/app:1", patience=QUICK)
    assert caught.value.hint == "see HTTPS_PROXY, NO_PROXY"
    monkeypatch.setenv("HTTPS_PROXY", proxy.address("mona:secret@"))
    pull(str(tmp_path / "store"), f"{NAME}/team/app:1", patience=QUICK)


def test_no_proxy(proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", f"localhost,{NAME}")
    with pytest.raises(Unreachable, match=re.escape(NAME)):
        pull(str(tmp_path / "store"), f"{NAME}/team/app:1", patience=QUICK)
    assert proxy.asked == []


def test_this_machine_needs_none(
    proxy: Proxy, registry: tuple[str, real.Authority], tmp_path: Path
) -> None:
    with pytest.raises(ImageError, match=r"certificate"):  # it is there, by another name
        pull(str(tmp_path / "store"), f"{registry[0]}/team/app:1", patience=QUICK)
    assert proxy.asked == []


@pytest.mark.parametrize("address", ["socks5://127.0.0.1:1080", "http://127.0.0.1:1"])
def test_one_that_cannot_serve(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", address)
    with pytest.raises(ImageError, match="proxy") as caught:
        pull(str(tmp_path / "store"), f"{NAME}/team/app:1", patience=QUICK)
    assert "HTTPS_PROXY" in caught.value.hint
    assert not list((tmp_path / "store").glob("images/[!.]*"))


@pytest.mark.parametrize(
    ("host", "local"),
    [("localhost:5000", True), ("127.0.0.2", True), ("[::1]:5000", True), ("[::1]", True),
     ("10.0.0.1:5000", False), ("localhost.example", False), (NAME, False)],
)  # fmt: skip
def test_what_this_machine_is(host: str, local: bool) -> None:
    assert is_loopback(host) is local
