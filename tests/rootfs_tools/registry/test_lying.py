"""A registry that lies: each is one line, in bounded time, and leaves nothing in the store."""

import gzip
import io
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from minirun.core.errors import ImageError
from rootfs_tools.image_spec import DOCUMENT_LIMIT, MANIFESTS
from rootfs_tools.registry import credentials
from rootfs_tools.registry.client import Client
from rootfs_tools.registry.credentials import Credentials
from rootfs_tools.registry.errors import Unreachable
from rootfs_tools.registry.pull import pull
from rootfs_tools.registry.settings import Endpoint
from rootfs_tools.registry.transport import Patience, Transport
from tests.rootfs_tools.registry import real
from tests.rootfs_tools.registry.lying import Answer, Handler, Liar, liar, once, reply

USUAL = Patience(connect=5, read=10, document=10, wait=1, attempts=3)
SHORT = Patience(connect=1, read=0.3, document=0.5, wait=1, attempts=3)
"""For a registry that is slow on purpose: on a busy machine each is."""
SECRET = "c2VjcmV0"


@pytest.fixture
def here() -> Iterator[Liar]:
    with liar() as one:
        yield one


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("rootfs_tools.registry.transport.BACKOFF", 0.001)
    real.no_settings(tmp_path, monkeypatch)
    return tmp_path


def layer(data: bytes = b"hello" * 100_000) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        row = tarfile.TarInfo("file")
        row.size = len(data)
        tar.addfile(row, io.BytesIO(data))
    return out.getvalue()


def refused(tmp_path: Path, name: str, patience: Patience = USUAL) -> str:
    """Pull, see that it fails and that nothing has a name, and return the line."""
    store = tmp_path / "store"
    with pytest.raises(ImageError) as caught:
        pull(str(store), name, patience=patience)
    assert not list(store.glob("images/[!.]*"))
    assert not list(store.glob("layers/[!.]*"))
    assert "\n" not in caught.value.line()
    assert "\x1b" not in caught.value.line()
    return caught.value.line()


def blob(digest: str, name: str = "app") -> str:
    return f"/v2/{name}/blobs/{digest}"


def test_a_manifest_that_is_not_the_digest_s(here: Liar, tmp_path: Path) -> None:
    wanted = f"sha256:{'0' * 64}"
    here.image("app")
    here.routes[f"/v2/app/manifests/{wanted}"] = here.routes["/v2/app/manifests/1"]
    said = refused(tmp_path, f"{here.host}/app@{wanted}")
    assert f"manifest verification failed for digest {wanted}: it is sha256:" in said


def test_a_layer_of_other_content(here: Liar, tmp_path: Path) -> None:
    data = layer()
    [digest] = here.image("app", data)
    here.routes[blob(digest)] = reply(data[:-1] + b"x")
    assert f"{digest}: wrong content: is sha256:" in refused(tmp_path, f"{here.host}/app:1")


def test_a_layer_without_an_end(here: Liar, tmp_path: Path) -> None:
    data = layer()
    [digest] = here.image("app", data)

    def endless(request: Handler) -> None:
        request.send_response(200)
        request.end_headers()
        while True:
            request.wfile.write(data)

    here.routes[blob(digest)] = endless
    assert f"more than {len(data)} bytes" in refused(tmp_path, f"{here.host}/app:1")


def cut(data: bytes) -> Answer:
    """Half of what is promised, then the connection ends."""

    def answer(request: Handler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data[: len(data) // 2])

    return answer


@pytest.mark.parametrize("ranges", [True, False])
def test_a_layer_that_breaks_off_is_gone_on_with(here: Liar, tmp_path: Path, ranges: bool) -> None:
    data = layer()
    [digest] = here.image("app", data)

    def rest(request: Handler) -> None:
        start = int(request.headers["Range"].removeprefix("bytes=").rstrip("-"))
        said = f"bytes {start}-{len(data) - 1}/{len(data)}"
        reply(data[start:], 206, Content_Range=said)(request)

    here.routes[blob(digest)] = once(cut(data), rest if ranges else reply(data))
    image = pull(str(tmp_path / "store"), f"{here.host}/app:1", patience=USUAL)
    assert Path(image.layers[0], "file").read_bytes() == b"hello" * 100_000
    assert [each.get("Range", "") != "" for each in here.asked(digest)] == [False, True]


def test_a_layer_that_never_ends_well(here: Liar, tmp_path: Path) -> None:
    """What arrived stays, and the next pull goes on from there."""
    data = layer()
    [digest] = here.image("app", data)
    empty = reply(b"", 206, Content_Range=f"bytes {len(data) // 2}-{len(data) - 1}/{len(data)}")
    here.routes[blob(digest)] = once(cut(data), empty)
    assert "the connection broke" in refused(tmp_path, f"{here.host}/app:1")
    assert len(here.asked(digest)) <= 8
    here.routes[blob(digest)] = reply(data)
    pull(str(tmp_path / "store"), f"{here.host}/app:1", patience=USUAL)
    assert here.asked(digest)[-1]["Range"] == f"bytes={len(data) // 2}-"


def test_a_range_that_was_not_asked_for(here: Liar, tmp_path: Path) -> None:
    data = layer()
    [digest] = here.image("app", data)
    wrong = reply(data, 206, Content_Range=f"bytes 0-{len(data) - 1}/{len(data)}")
    here.routes[blob(digest)] = once(cut(data), wrong)
    assert "asked from byte" in refused(tmp_path, f"{here.host}/app:1")


def sleeping(request: Handler) -> None:
    time.sleep(1)


def test_a_registry_that_stalls(here: Liar, tmp_path: Path) -> None:
    here.routes["/v2/app/manifests/1"] = sleeping
    assert "the registry stalls" in refused(tmp_path, f"{here.host}/app:1", SHORT)
    data = layer()
    [digest] = here.image("app", data)
    here.routes[blob(digest)] = sleeping
    with pytest.raises(ImageError, match="the registry stalls") as caught:
        pull(str(tmp_path), f"{here.host}/app:1", patience=SHORT)
    assert not isinstance(caught.value, Unreachable)  # it has answered: nothing is made instead


def test_a_document_that_drips(here: Liar, tmp_path: Path) -> None:
    def drip(request: Handler) -> None:
        request.send_response(200)
        request.end_headers()
        while True:
            request.wfile.write(b" ")
            time.sleep(0.05)

    here.routes["/v2/app/manifests/1"] = drip
    assert "takes too long" in refused(tmp_path, f"{here.host}/app:1", SHORT)


def test_a_manifest_without_an_end(here: Liar, tmp_path: Path) -> None:
    def endless(request: Handler) -> None:
        request.send_response(200)
        request.end_headers()
        while True:
            request.wfile.write(b" " * 65536)

    here.routes["/v2/app/manifests/1"] = endless
    said = refused(tmp_path, f"{here.host}/app:1")
    assert f"a document of more than {DOCUMENT_LIMIT} bytes" in said


def test_nothing_is_decompressed(here: Liar, tmp_path: Path) -> None:
    bomb = gzip.compress(b" " * (64 << 20))
    body = reply(bomb, type=MANIFESTS[0], Content_Encoding="gzip")
    here.routes["/v2/app/manifests/1"] = body
    assert "not JSON" in refused(tmp_path, f"{here.host}/app:1")
    assert here.asked("manifests")[0]["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b"[" * 100_000, b"{}", b"null"])
def test_a_manifest_that_is_none(here: Liar, tmp_path: Path, body: bytes) -> None:
    here.routes["/v2/app/manifests/1"] = reply(body, type=MANIFESTS[0])
    assert "manifest: " in refused(tmp_path, f"{here.host}/app:1")


@pytest.mark.parametrize(
    "target",
    ["file:///etc/passwd", "gopher://127.0.0.1/", "http://[", "http://a:b@127.0.0.1/",
     "http://127.0.0.1:99999/", "http://127.0.0.1:1/\x85", "ftp://127.0.0.1/", "data:text/plain,x"],
)  # fmt: skip
def test_a_redirect_out_of_the_web(here: Liar, tmp_path: Path, target: str) -> None:
    here.routes["/v2/app/manifests/1"] = reply(b"", 307, Location=target)
    assert "not followed" in refused(tmp_path, f"{here.host}/app:1")


def test_redirects_in_a_circle(here: Liar, tmp_path: Path) -> None:
    here.routes["/v2/app/manifests/1"] = reply(b"", 302, Location="/v2/app/manifests/1")
    assert "more than 5 redirects" in refused(tmp_path, f"{here.host}/app:1")
    assert len(here.asked("manifests")) == 6


def test_credentials_stay_behind_at_another_host(here: Liar, tmp_path: Path) -> None:
    """The redirect itself is followed: that is how registries serve blobs."""
    credentials.store(here.host, Credentials("mona", SECRET))
    data = layer()
    [digest] = here.image("app", data)
    open_route = here.routes["/v2/app/manifests/1"]

    def guarded(request: Handler) -> None:
        if not request.headers.get("Authorization"):
            return reply(b"", 401, WWW_Authenticate='Basic realm="x"')(request)
        return open_route(request)

    here.routes["/v2/app/manifests/1"] = guarded
    with liar() as other:
        here.routes[blob(digest)] = reply(b"", 307, Location=f"http://{other.host}/x")
        other.routes["/x"] = reply(b"", 401, WWW_Authenticate='Basic realm="x"')
        refused(tmp_path, f"{here.host}/app:1")
        other.routes["/x"] = reply(data)
        pull(str(tmp_path / "store"), f"{here.host}/app:1", patience=USUAL)
        assert here.asked("blobs")[-1]["Authorization"].startswith("Basic ")
        assert len(other.seen) == 2
        assert not [row for row in other.seen if "Authorization" in row[1]]


def test_no_redirect_from_tls_to_none(here: Liar, home: Path, tmp_path: Path) -> None:
    authority = real.Authority(tmp_path / "authority")
    with liar(authority.issue("liar")) as secure:
        folder = home / ".config/containers/certs.d" / secure.host
        folder.mkdir(parents=True)
        (folder / "ca.crt").write_bytes(authority.certificate.read_bytes())
        secure.routes["/v2/app/manifests/1"] = reply(b"", 307, Location=f"http://{here.host}/x")
        assert "a redirect from TLS" in refused(tmp_path, f"{secure.host}/app:1")
        assert here.seen == []


@pytest.mark.parametrize(
    "realm",
    ["file:///etc/passwd", "http://registry.invalid/token", "http://a@127.0.0.1/", "http://[", "",
     "https:///x", "/token", "http://127.0.0.1:1/#x"],
)  # fmt: skip
def test_a_realm_that_is_not_to_be_trusted(here: Liar, tmp_path: Path, realm: str) -> None:
    credentials.store(here.host, Credentials("mona", SECRET))
    challenge = f'Bearer realm="{realm}",service="x"'
    here.routes["/v2/app/manifests/1"] = reply(b"", 401, WWW_Authenticate=challenge)
    assert "a token from " in refused(tmp_path, f"{here.host}/app:1")


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b'{"token": 3}', b'{"token": "a\\r\\nX-Evil: 1"}', b'{"token": "\xc3\xa4"}',
     b'{"token": ""}', b"[" * 100_000],
)  # fmt: skip
def test_a_token_that_is_none(here: Liar, tmp_path: Path, body: bytes) -> None:
    challenge = f'Bearer realm="http://{here.host}/token"'
    here.routes["/v2/app/manifests/1"] = reply(b"", 401, WWW_Authenticate=challenge)
    here.routes["/token"] = reply(body)
    assert "the answer has no token" in refused(tmp_path, f"{here.host}/app:1")


def test_the_scope_is_ours_whatever_the_challenge_says(here: Liar, tmp_path: Path) -> None:
    challenge = f'Bearer realm="http://{here.host}/token",scope="repository:victim:push"'
    here.routes["/v2/app/manifests/1"] = reply(b"", 401, WWW_Authenticate=challenge)
    here.routes["/token"] = reply(b'{"token": "t"}')
    assert "pull access denied" in refused(tmp_path, f"{here.host}/app:1")
    paths = [path for path, _ in here.seen if path.startswith("/token")]
    assert set(paths) == {"/token?scope=repository%3Aapp%3Apull"}
    assert len(here.seen) < 8  # it said 401 to each token


def test_busy(here: Liar, tmp_path: Path) -> None:
    here.image("app")
    good = here.routes["/v2/app/manifests/1"]
    here.routes["/v2/app/manifests/1"] = once(reply(b"", 429, Retry_After="0"), good)
    pull(str(tmp_path / "store"), f"{here.host}/app:1", patience=USUAL)
    assert len(here.asked("manifests")) == 2


@pytest.mark.parametrize(
    ("answer", "times", "said"),
    [(reply(b"", 429, Retry_After="86400"), 1, "toomanyrequests: you have reached"),
     (reply(b"", 429, Retry_After="soon"), 3, "toomanyrequests: you have reached"),
     (reply(b"", 503), 3, "status 503"),
     (reply(b'{"errors":[{"code":"TOOMANYREQUESTS","message":"a\\u001b[2J"}]}', 403), 1, "toomany"),
     (reply(b'{"errors":[{"code":"DENIED","message":"no"}]}', 403), 1, "pull access denied for"),
     (reply(b'{"errors":[]}', 418), 1, "status 418"),
     (reply(b"", 401), 1, "unauthorized: authentication required")],
)  # fmt: skip
def test_refusals(here: Liar, tmp_path: Path, answer: Answer, times: int, said: str) -> None:
    here.routes["/v2/app/manifests/1"] = answer
    assert said in refused(tmp_path, f"{here.host}/app:1")
    assert len(here.asked("manifests")) == times


def test_a_layer_that_lies_elsewhere(here: Liar, tmp_path: Path) -> None:
    [digest] = here.image("app", layer())
    found: list[bytes] = []
    here.routes["/v2/app/manifests/1"](_Recorder(found))  # type: ignore[arg-type]
    foreign = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
    data = found[0].replace(b"application/vnd.oci.image.layer.v1.tar", foreign.encode())
    here.routes["/v2/app/manifests/1"] = reply(data, type=MANIFESTS[0])
    said = refused(tmp_path, f"{here.host}/app:1")
    assert "lies elsewhere" in said
    assert here.asked(digest) == []


class _Recorder:
    """Stands for a request, to read what a route answers."""

    def __init__(self, found: list[bytes]) -> None:
        self.wfile = self
        self.write = found.append

    def send_response(self, *_: object) -> None: ...

    def send_header(self, *_: object) -> None: ...

    def end_headers(self) -> None: ...


def raw(*parts: bytes, pause: float = 0) -> Answer:
    """Answer with these bytes, the last of them again and again."""

    def answer(request: Handler) -> None:
        for part in parts:
            request.wfile.write(part)
        while True:
            request.wfile.write(parts[-1])
            time.sleep(pause)

    return answer


OK, CHUNKED = b"HTTP/1.1 200 OK\r\n", b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "continue": raw(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "continue, slowly": raw(b"HTTP/1.1 100 Continue\r\n\r\n", pause=0.05),
    "one header, by bytes": raw(OK, b"X-Long: ", b"x", pause=0.05),
    "headers": raw(OK, b"X-A: b\r\n"),
    "trailers": raw(OK, CHUNKED, b"2\r\n{}\r\n0\r\n", b"X-A: b\r\n"),
    "trailers, slowly": raw(OK, CHUNKED, b"2\r\n{}\r\n0\r\n", b"X-A: b\r\n", pause=0.05),
    "a chunk's length, by bytes": raw(OK, CHUNKED, b"0", pause=0.05),
}


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("what", ["manifest", "token", "layer"])
def test_an_answer_without_an_end(here: Liar, tmp_path: Path, kind: str, what: str) -> None:
    """What is no content ends too: in lines, and in time."""
    path = "/v2/app/manifests/1"
    if what == "layer":
        path = blob(here.image("app", layer())[0])
    elif what == "token":
        challenge = f'Bearer realm="http://{here.host}/token"'
        here.routes[path], path = reply(b"", 401, WWW_Authenticate=challenge), "/token"
    here.routes[path] = ENDLESS[kind]
    start = time.monotonic()
    said = refused(tmp_path, f"{here.host}/app:1", SHORT)
    assert time.monotonic() < start + 20
    assert "Exception" not in said


def test_100_continue_before_an_answer_is_passed_over(here: Liar, tmp_path: Path) -> None:
    here.image("app")
    good = here.routes["/v2/app/manifests/1"]

    def answer(request: Handler) -> None:
        request.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 3)
        good(request)

    here.routes["/v2/app/manifests/1"] = answer
    pull(str(tmp_path / "store"), f"{here.host}/app:1", patience=USUAL)


def test_what_is_not_found_is_named(here: Liar, tmp_path: Path) -> None:
    """It once was the manifest, whatever the registry lacked."""
    [digest] = here.image("app", layer())
    said = refused(tmp_path, f"{here.host}/app:1")
    assert said.startswith(f"{here.host}: {here.host}/app:1: {digest[:19]} not found")
    challenge = f'Bearer realm="http://{here.host}/none"'
    here.routes["/v2/app/manifests/1"] = reply(b"", 401, WWW_Authenticate=challenge)
    said = refused(tmp_path, f"{here.host}/app:1")
    assert said.startswith(f"{here.host}: the token for {here.host}: not found (status 404)")
    del here.routes["/v2/app/manifests/1"]
    assert "manifest for" in refused(tmp_path, f"{here.host}/app:1")
    here.routes["/v2/"] = reply(b"", 404)
    transport = Transport(USUAL)
    with pytest.raises(ImageError, match="the registry's /v2/: not found"):
        Client(Endpoint(here.host, "", insecure=True), transport).check()
    transport.close()
