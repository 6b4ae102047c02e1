"""`minirun push`: a real registry takes it, real tools read it, no other host sees a password."""

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from minirun import cli
from minirun.core.errors import ImageError
from required import installed
from rootfs_tools import catalogue
from rootfs_tools.importer import import_tar
from rootfs_tools.registry import credentials
from rootfs_tools.registry.credentials import Credentials
from rootfs_tools.registry.pull import pull
from rootfs_tools.registry.push import destination, push
from rootfs_tools.registry.transport import Patience
from rootfs_tools.take import take
from tests.rootfs_tools.cli.test_save import short
from tests.rootfs_tools.layouts import FolderSource, LayoutFolder, listing, member, tar
from tests.rootfs_tools.registry import real
from tests.rootfs_tools.registry.lying import Handler, Liar, liar, once, reply
from tests.rootfs_tools.registry.tokens import Tokens
from tests.rootfs_tools.test_unpack_layer import BASE, CASES, shown

__all__ = ["short"]
QUICK = Patience(connect=2, read=5)
ME = Credentials(real.USER, real.PASSWORD)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    real.no_settings(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture
def store(tmp_path: Path) -> str:
    """`app`, with whiteouts, links, odd names; `made`, packed here."""
    where = str(tmp_path / "store")
    layers = [tar(*BASE), *(tar(*each) for each in CASES["odd names"] + CASES["opaque"])]
    layers.append(tar(member("big", content=bytes(3 << 20))))
    take(where, "app:1", FolderSource(LayoutFolder(tmp_path / "layout", *layers, Cmd=["/c"])))
    archive = tmp_path / "made.tar"
    archive.write_bytes(tar(member("a", content=b"x", uid=9, mode=0o4755), member("b")))
    with archive.open("rb") as file:
        import_tar(where, "made", file, "made.tar")
    return where


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, real.Authority]]:
    """A registry with TLS and htpasswd."""
    folder = tmp_path_factory.mktemp("secure")
    authority = real.Authority(folder / "ca")
    with real.registry(
        folder / "r", tls=authority.issue("registry"), **real.htpasswd(folder)
    ) as host:
        yield host, authority


@pytest.fixture
def host(secure: tuple[str, real.Authority], home: Path) -> str:
    """Its HOST:PORT; its certificate is trusted, and we are logged in."""
    folder = home / ".config/containers/certs.d" / secure[0]
    folder.mkdir(parents=True)
    (folder / "ca.crt").write_bytes(secure[1].certificate.read_bytes())
    credentials.store(secure[0], ME)
    return secure[0]


def kinds(store: str, name: str, to: str) -> list[str]:
    found: list[str] = []
    push(store, name, destination(to), lambda step: found.append(step.kind), QUICK)
    return sorted(kind for kind in found if kind != "pushing")


@pytest.mark.parametrize("name", ["app:1", "made"])
def test_pushed_and_pulled_it_is_the_same(store: str, tmp_path: Path, host: str, name: str) -> None:
    to = f"{host}/team/{name.partition(':')[0]}:9"
    pushed = push(store, name, destination(to))
    again = pull(str(tmp_path / "other"), to)
    assert again.digest == pushed.digest
    first = catalogue.resolve(store, name)
    assert (again.cmd, again.env, len(again.layers)) == (first.cmd, first.env, len(first.layers))
    for one, other in zip(first.layers, again.layers, strict=True):
        assert listing(Path(one), times=False) == listing(Path(other), times=False)
    assert push(store, name, destination(to)) == pushed


def test_skopeo_umoci_and_podman_read_it(store: str, tmp_path: Path, host: str, short: str) -> None:
    to = f"{host}/tools/app:1"
    digest = push(store, "app:1", destination(to)).digest
    creds = f"{real.USER}:{real.PASSWORD}"
    argv = ["skopeo", "inspect", "--tls-verify=false", "--creds", creds, f"docker://{to}"]
    found = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    assert (found["Digest"], found["RepoTags"]) == (digest, ["1"])
    copy = ["skopeo", "--insecure-policy", "copy", "-q", "--src-tls-verify=false"]
    copy += ["--src-creds", creds, f"docker://{to}", f"oci:{tmp_path}/copy:test"]
    subprocess.run(copy, check=True, capture_output=True)
    bundle = tmp_path / "bundle"
    argv = ["umoci", "unpack", "--image", f"{tmp_path}/copy:test", str(bundle)]
    subprocess.run(argv, check=True, capture_output=True)
    mine = shown(catalogue.resolve(store, "app:1").layers, tmp_path / "merged")
    theirs = listing(bundle / "rootfs")
    assert {name: row[:-1] for name, row in mine.items()} == {
        name: row[:-1] for name, row in theirs.items()
    }
    (tmp_path / "registries.conf").write_text("")
    podman = [installed("podman"), "--root", f"{short}/p", "--runroot", f"{short}/r"]
    podman += ["--storage-driver=vfs", "--tmpdir", f"{short}/t", "--events-backend=none"]
    argv = [*podman, "pull", "-q", "--tls-verify=false", "--creds", creds, to]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_there_is_not_sent_again(store: str, tmp_path: Path, host: str) -> None:
    count = len(catalogue.resolve(store, "app:1").layers)
    assert kinds(store, "app:1", f"{host}/one/app:1") == ["pushed"] * count
    assert kinds(store, "app:1", f"{host}/one/app:2") == ["present"] * count
    other = str(tmp_path / "other")
    pull(other, f"{host}/one/app:1")
    assert kinds(other, f"{host}/one/app:1", f"{host}/two/app:1") == ["mounted"] * count
    assert pull(str(tmp_path / "third"), f"{host}/two/app:1").cmd == ("/c",)


def test_the_command(store: str, host: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--store", store, "push", "made", f"{host}/cli/made:2"]) == 0
    out, error = capfd.readouterr()
    first, last = out.splitlines()
    assert first == f"The push refers to repository [{host}/cli/made]"
    assert re.fullmatch(r"2: digest: sha256:[0-9a-f]{64} size: \d+", last)
    assert error.split(": ")[1:] == ["Pushed\n"]
    assert cli.main(["--store", store, "push", "-q", "made", f"docker://{host}/cli/made:2"]) == 0
    assert capfd.readouterr() == (f"{host}/cli/made:2\n", "")
    for words, text, status in (
        (["none"], "An image does not exist locally with the tag: none:latest", 1),
        (["made", f"{host}/x@sha256:{'0' * 64}"], "cannot push a digest reference", 1),
        ([], "requires at least 1 and at most 2 arguments", 1),
    ):
        assert cli.main(["--store", store, "push", *words]) == status
        out, error = capfd.readouterr()
        assert (out, error.count("\n")) == ("", 1)
        assert text in error


def test_unauthorized(store: str, host: str) -> None:
    credentials.store(host, Credentials(real.USER, "wrong"))
    with pytest.raises(ImageError, match="unauthorized: authentication required") as caught:
        push(store, "made", destination(f"{host}/x/made"))
    assert caught.value.hint == f"minirun login {host}"


def test_tokens_are_asked_for_with_pull_and_push(store: str, tmp_path: Path) -> None:
    with (
        Tokens(tmp_path / "tokens").serve() as tokens,
        real.registry(tmp_path / "r", **tokens.configuration()) as host,
    ):
        to = f"{host}/public/made:1"
        with pytest.raises(ImageError, match="denied: requested access to the resource is denied"):
            push(store, "made", destination(to))
        credentials.store(host, ME)
        tokens.asked.clear()
        pushed = push(store, "made", destination(to))
        assert tokens.asked == [("GET", "repository:public/made:pull,push")]
        other = str(tmp_path / "other")
        assert pull(other, to).digest == pushed.digest
        tokens.asked.clear()
        assert kinds(other, to, f"{host}/private/made:1") == ["mounted"]
        assert {scope for _, scope in tokens.asked} == {
            "repository:private/made:pull,push",
            "repository:private/made:pull,push repository:public/made:pull",
        }


Sent = list[tuple[str, str, int, str]]


def taking(one: Liar, sent: Sent, place: str) -> None:
    """Have a registry take what is sent; layers go to `place`."""

    def put(request: Handler) -> None:
        size = len(request.rfile.read(int(request.headers["Content-Length"])))
        sent.append((request.path, one.host, size, request.headers.get("Authorization", "")))
        reply(status=201)(request)

    one.routes["/v2/x/blobs/uploads/"] = reply(status=202, Location=place)
    one.routes["/upload"] = put
    one.routes["/v2/x/manifests/1"] = put


def test_another_host_gets_the_layer_and_no_password(store: str) -> None:
    sent: Sent = []
    with liar() as one, liar() as other:
        credentials.store(one.host, ME)
        taking(one, sent, f"http://{other.host}/upload?state=1#part")
        taking(other, sent, "")
        begin = one.routes["/v2/x/blobs/uploads/"]
        challenge = reply(b"{}", 401, WWW_Authenticate='Basic realm="x"')
        one.routes["/v2/x/blobs/uploads/"] = once(challenge, begin)
        push(store, "made", destination(f"{one.host}/x:1"), patience=QUICK)
        assert len(sent) == 3
        for path, host, _, given in sent:
            if host == other.host:
                assert given == ""
                assert re.fullmatch(r"/upload\?state=1&digest=sha256%3A[0-9a-f]{64}", path)
        assert [bool(given) for _, host, _, given in sent if host == one.host] == [True]
        assert not any("Authorization" in headers for _, headers in other.seen)


def test_a_relative_place(store: str) -> None:
    sent: Sent = []
    with liar() as one:
        taking(one, sent, "/upload?_state=a%2Bb")
        found = push(store, "made", destination(f"{one.host}/x:1"), patience=QUICK)
        assert [path.partition("&")[0] for path, *_ in sent[:2]] == ["/upload?_state=a%2Bb"] * 2
        assert sent[2][:3] == ("/v2/x/manifests/1", one.host, found.size)


@pytest.mark.parametrize(
    "place", ["file:///etc/passwd", "http://u:p@127.0.0.1/", "//", "http://a b/", "http://[x/", ""]
)
def test_places_that_nothing_is_sent_to(store: str, place: str) -> None:
    sent: Sent = []
    with liar() as one:
        taking(one, sent, place)
        if place == "//":
            one.routes["/v2/x/blobs/uploads/"] = reply(status=202)
        with pytest.raises(ImageError) as caught:
            push(store, "made", destination(f"{one.host}/x:1"), patience=QUICK)
        assert "\n" not in caught.value.line()
        assert not sent


def test_what_broke_off_is_begun_anew(store: str) -> None:
    sent: Sent = []
    with liar() as one:
        taking(one, sent, "/upload")
        put = one.routes["/upload"]

        def broken(request: Handler) -> None:
            request.rfile.read(10)
            request.connection.shutdown(socket.SHUT_RDWR)

        def busy(request: Handler) -> None:
            request.rfile.read(int(request.headers["Content-Length"]))
            reply(b"{}", 503)(request)

        one.routes["/upload"] = once(broken, once(busy, put))
        push(store, "made", destination(f"{one.host}/x:1"), patience=QUICK)
        assert len(one.asked("/blobs/uploads/")) == 4  # two blobs; the first one three times
        sizes = [size for path, _, size, _ in sent if path.startswith("/upload")]
        assert len(sizes) == 2 and min(sizes) > 0


def test_a_registry_s_refusal_is_one_clean_line(store: str) -> None:
    said = json.dumps({"errors": [{"code": "X", "message": "\x1b[31mno\nmore"}]}).encode()
    for status, text in ((403, "denied"), (404, "no"), (400, "status 400"), (405, "status 405")):
        with liar() as one:
            one.routes["/v2/x/blobs/uploads/"] = reply(said, status)
            with pytest.raises(ImageError, match=text) as caught:
                push(store, "made", destination(f"{one.host}/x:1"), patience=QUICK)
            assert caught.value.line().isprintable()
