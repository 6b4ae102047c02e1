"""A real registry: Debian's docker-registry, filled by skopeo."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from minirun.core.errors import ImageError
from rootfs_tools import image_spec
from rootfs_tools.grammar import parse
from rootfs_tools.registry import credentials, settings
from rootfs_tools.registry.errors import NotFound, Unreachable
from rootfs_tools.registry.pull import pull
from rootfs_tools.registry.source import Registry
from rootfs_tools.registry.transport import Patience, Transport
from tests.rootfs_tools.registry import real

QUICK = Patience(connect=2, read=2)
LAYERS = ({"hello": b"one" * 50000}, {"world": b"two"})


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real.layout(tmp_path_factory.mktemp("layout") / "app", *LAYERS, Cmd=["/hello"])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> real.Authority:
    return real.Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, layout: Path) -> Iterator[str]:
    """A registry without TLS."""
    with real.registry(tmp_path_factory.mktemp("plain")) as host:
        real.fill(host, "team/app:1", layout, "--dest-tls-verify=false")
        real.fill(host, "library/ubuntu:latest", layout, "--dest-tls-verify=false")
        yield host


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No settings but the test's own, and a proxy that would catch what it must not."""
    real.no_settings(tmp_path, monkeypatch)
    return tmp_path


def source(name: str) -> Registry:
    wanted = parse(name)
    return Registry(wanted, settings.load().endpoints(name, wanted), Transport(QUICK))


def mirrored(home: Path, location: str, *mirrors: str) -> None:
    lines = [f'[[registry]]\nlocation = "{location}"\n']
    lines += [f'[[registry.mirror]]\nlocation = "{mirror}"\n' for mirror in mirrors]
    (home / "registries.conf").write_text("".join(lines))


def trust(home: Path, host: str, authority: real.Authority) -> Path:
    folder = home / ".config/containers/certs.d" / host
    folder.mkdir(parents=True)
    (folder / "ca.crt").write_bytes(authority.certificate.read_bytes())
    return folder


def fill_secure(host: str, layout: Path, *options: str) -> None:
    real.fill(host, "team/app:1", layout, "--dest-tls-verify=false", *options)


def test_an_image_is_what_skopeo_sees_by_tag_and_by_digest(plain: str) -> None:
    argv = ["skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{plain}/team/app:1"]
    raw = subprocess.run(argv, check=True, capture_output=True).stdout
    by_tag = source(f"{plain}/team/app:1").root()
    assert by_tag[1] == raw
    assert by_tag[0].digest == image_spec.digest_of(raw)
    assert source(f"{plain}/team/app@{by_tag[0].digest}").root() == by_tag


def test_blobs_from_any_byte_on(plain: str, layout: Path) -> None:
    one = source(f"{plain}/team/app:1")
    top, data = one.root()
    manifest = image_spec.parse(top.media_type, data)
    assert isinstance(manifest, image_spec.Manifest)
    assert image_spec.parse_config(one.document(manifest.config)).cmd == ("/hello",)
    for layer in manifest.layers:
        whole = (layout / "blobs/sha256" / layer.digest.partition(":")[2]).read_bytes()
        for offset in (0, 1, layer.size - 1):
            with one.blob(layer, offset) as stream:
                found = b"".join(iter(lambda: stream.read(1000), b""))
            assert found == whole[offset:]


def test_pulled_into_the_store(plain: str, tmp_path: Path) -> None:
    told: list[str] = []
    image = pull(str(tmp_path), f"{plain}/team/app:1", notify=lambda step: told.append(step.kind))
    assert image.cmd == ("/hello",)
    assert image.origin == f"{plain}/team/app:1"
    assert Path(image.layers[0], "hello").read_bytes() == LAYERS[0]["hello"]
    assert Path(image.layers[1], "world").read_bytes() == LAYERS[1]["world"]
    assert told.count("verified") == told.count("done") == 2
    told.clear()
    assert pull(str(tmp_path), f"{plain}/team/app:1", notify=lambda s: told.append(s.kind)) == image
    assert "pulling" not in told


def test_not_found_with_the_nearest_name(plain: str, tmp_path: Path) -> None:
    pull(str(tmp_path), f"{plain}/team/app:1")
    with pytest.raises(NotFound, match=r"manifest for \S*/team/app:2 not found") as caught:
        pull(str(tmp_path), f"{plain}/team/app:2")
    assert caught.value.hint == f"did you mean {plain}/team/app:1?"


def test_no_such_platform(plain: str, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="no matching manifest for linux/s390x") as caught:
        pull(str(tmp_path), f"{plain}/team/app:1", platform="linux/s390x")
    assert "linux/amd64" in caught.value.hint


def test_docker_io_s_mirror_and_the_next_one_if_it_is_down(
    plain: str, home: Path, tmp_path: Path
) -> None:
    mirrored(home, "docker.io", "127.0.0.1:1", plain)
    image = pull(str(tmp_path), "ubuntu")
    assert image.name == "ubuntu:latest"
    assert Path(image.layers[1], "world").read_bytes() == b"two"


def test_what_a_mirror_answers_counts_more_than_a_host_that_is_down(
    plain: str, home: Path, tmp_path: Path
) -> None:
    mirrored(home, "a.example", plain)
    with pytest.raises(NotFound):
        pull(str(tmp_path), "a.example/missing")


def test_no_host_there(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1: connection refused"):
        pull(str(tmp_path), "127.0.0.1:1/app", patience=Patience(hasty=1))
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1: connection refused"):
        pull(str(tmp_path), "127.0.0.1:1/app")
    with pytest.raises(Unreachable, match=r"nowhere\.invalid: no such host"):
        pull(str(tmp_path), "nowhere.invalid/app")


def test_tls_of_an_authority_in_certs_d(
    authority: real.Authority, layout: Path, home: Path, tmp_path: Path
) -> None:
    certificate = authority.issue("server")
    with real.registry(tmp_path / "r", certificate) as host:
        fill_secure(host, layout)
        with pytest.raises(ImageError, match="x509: certificate signed by unknown") as caught:
            source(f"{host}/team/app:1").root()
        assert f"certs.d/{host}/ca.crt" in caught.value.hint
        (home / "registries.conf").write_text(f'[[registry]]\nlocation="{host}"\ninsecure = true\n')
        source(f"{host}/team/app:1").root()
        (home / "registries.conf").unlink()
        trust(home, host, authority)
        source(f"{host}/team/app:1").root()


@pytest.mark.parametrize(
    ("names", "days", "said"),
    [("DNS:other.example", 2, "x509: certificate is not valid for this name"),
     ("IP:127.0.0.1", -1, "x509: certificate has expired")],
)  # fmt: skip
def test_a_certificate_that_does_not_fit(
    authority: real.Authority, home: Path, tmp_path: Path, names: str, days: int, said: str
) -> None:
    with real.registry(tmp_path / "r", authority.issue(f"bad{days}", names, days)) as host:
        trust(home, host, authority)
        with pytest.raises(ImageError, match=said):
            source(f"{host}/team/app:1").root()


def test_a_broken_certs_d(authority: real.Authority, home: Path, plain: str) -> None:
    folder = trust(home, plain, authority)
    (folder / "client.cert").write_text("x")
    with pytest.raises(ImageError, match=r"missing key client\.key for client certificate"):
        source(f"{plain}/team/app:1").root()
    (folder / "client.key").write_text("x")
    with pytest.raises(ImageError, match=r"client\.cert: no certificate that can be used"):
        source(f"{plain}/team/app:1").root()


def test_basic(authority: real.Authority, layout: Path, home: Path, tmp_path: Path) -> None:
    auth = real.htpasswd(tmp_path / "auth")
    with real.registry(tmp_path / "r", authority.issue("basic"), **auth) as host:
        trust(home, host, authority)
        fill_secure(host, layout, f"--dest-creds={real.USER}:{real.PASSWORD}")
        name = f"{host}/team/app:1"
        with pytest.raises(ImageError, match="unauthorized: authentication required") as caught:
            source(name).root()
        assert caught.value.hint == f"minirun login {host}"
        credentials.store(host, credentials.Credentials(real.USER, "wrong"))
        with pytest.raises(ImageError, match="unauthorized"):
            source(name).root()
        credentials.store(host, credentials.Credentials(real.USER, real.PASSWORD))
        assert pull(str(tmp_path / "store"), name).cmd == ("/hello",)


def test_client_certificate(authority: real.Authority, home: Path, tmp_path: Path) -> None:
    """The registry asks for one: docker-registry's http.tls.clientcas."""
    certificate = authority.issue("both")
    with real.registry(tmp_path / "r", certificate, authority.certificate) as host:
        folder = trust(home, host, authority)
        with pytest.raises(ImageError, match=r"TLS|connection broke"):
            source(f"{host}/team/app:1").root()
        own = authority.issue("client")
        (folder / "client.cert").write_bytes(own.with_name("client.crt").read_bytes())
        (folder / "client.key").write_bytes(own.with_name("client.key").read_bytes())
        with pytest.raises(NotFound):
            source(f"{host}/team/app:1").root()
