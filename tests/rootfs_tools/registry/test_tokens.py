"""docker-registry with a token server: who may pull what, and how tokens are asked for."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from minirun.core.errors import ImageError
from rootfs_tools.grammar import parse
from rootfs_tools.registry import credentials, settings
from rootfs_tools.registry.credentials import Credentials
from rootfs_tools.registry.source import Registry
from rootfs_tools.registry.transport import Transport
from tests.rootfs_tools.registry import real
from tests.rootfs_tools.registry.tokens import IDENTITY, Tokens


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Tokens]]:
    """The registry's HOST:PORT, and its token server."""
    folder = tmp_path_factory.mktemp("tokens")
    layout = real.layout(folder / "layout", {"hello": b"one"})
    creds = f"--dest-creds={real.USER}:{real.PASSWORD}"
    with (
        Tokens(folder).serve() as tokens,
        real.registry(folder / "r", **tokens.configuration()) as host,
    ):
        for name in ("public/app:1", "private/app:1"):
            real.fill(host, name, layout, "--dest-tls-verify=false", creds)
        yield host, tokens


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[str, Tokens]) -> Path:
    place[1].asked.clear()
    real.no_settings(tmp_path, monkeypatch)
    return tmp_path


def source(name: str) -> Registry:
    wanted = parse(name)
    return Registry(wanted, settings.load().endpoints(name, wanted), Transport())


def test_anonymous(place: tuple[str, Tokens]) -> None:
    host, tokens = place
    one = source(f"{host}/public/app:1")
    top, _ = one.root()
    assert one.root()[0] == top
    assert tokens.asked == [("GET", "repository:public/app:pull")]  # one token, and no more
    with pytest.raises(ImageError) as caught:
        source(f"{host}/private/app:1").root()
    assert str(caught.value).startswith(f"pull access denied for {host}/private/app:1, repository ")
    assert caught.value.hint == f"minirun login {host}"


def test_with_a_password(place: tuple[str, Tokens]) -> None:
    host, _ = place
    credentials.store(host, Credentials(real.USER, real.PASSWORD))
    source(f"{host}/private/app:1").root()
    credentials.store(host, Credentials(real.USER, "wrong"))
    with pytest.raises(ImageError, match="unauthorized: incorrect username or password"):
        source(f"{host}/private/app:1").root()


def test_with_an_identity_token(place: tuple[str, Tokens], home: Path) -> None:
    host, tokens = place
    entry = {"auth": base64.b64encode(b"<token>:").decode(), "identitytoken": IDENTITY}
    (home / "auth.json").write_text(json.dumps({"auths": {host: entry}}))
    source(f"{host}/private/app:1").root()
    assert tokens.asked == [("POST", "repository:private/app:pull")]


def test_a_token_that_has_expired_is_renewed(place: tuple[str, Tokens]) -> None:
    host, tokens = place
    tokens.stale = 1
    source(f"{host}/public/app:1").root()
    assert len(tokens.asked) == 2
    tokens.stale = 100
    try:
        with pytest.raises(ImageError, match="pull access denied"):
            source(f"{host}/public/app:1").root()
    finally:
        tokens.stale = 0
    assert len(tokens.asked) < 8
