"""Whether the host answers, in bounded time; and the substitute that is made if it does not."""

import socket
import time
from pathlib import Path

import pytest

from rootfs_tools import recipe
from rootfs_tools.registry import pull
from rootfs_tools.registry.errors import Unreachable
from rootfs_tools.registry.probe import probe
from tests.rootfs_tools.making import make, unreachable
from tests.rootfs_tools.registry import real


def test_a_host_that_takes_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        probe("127.0.0.1", server.getsockname()[1], 1)


def test_refused_and_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:\d+: connection refused"):
        probe("127.0.0.1", port, 1)
    with pytest.raises(Unreachable, match="no such host"):
        probe("nowhere.invalid", 443, 1)
    with pytest.raises(Unreachable, match="no such host"):
        probe("a" * 70, 443, 1)


def test_a_host_that_says_nothing() -> None:
    """A full backlog drops what comes: as a firewall does."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        waiting = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(server.getsockname())
            waiting.append(one)
        begin = time.monotonic()
        with pytest.raises(Unreachable, match="connection timed out"):
            probe("127.0.0.1", server.getsockname()[1], 0.3)
        assert 0.2 < time.monotonic() - begin < 2
        for one in waiting:
            one.close()


def test_the_substitute_says_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real.as_docker_io("127.0.0.1:1", tmp_path)
    real.no_settings(tmp_path, monkeypatch)
    store = str(tmp_path / "store")
    make(Path(store), "debian", lambda tree: (tree / "etc").mkdir(), Cmd=["bash"])
    monkeypatch.setattr(recipe, "FOLDER", str(tmp_path / "recipes"))
    unreachable(tmp_path / "recipes")
    told: list[str] = []
    image = pull.find_or_pull(store, "ubuntu", told.append, pull.silent)
    assert image.origin == "not Ubuntu: made by a test, under the name ubuntu"
    (line,) = told
    assert line.startswith(
        "no registry can be reached (127.0.0.1:1: connection refused): "
        "ubuntu is made of Debian's packages, a substitute and not Ubuntu: Failed to fetch "
    )
    with pytest.raises(Unreachable):
        pull.find_or_pull(store, "ubuntu:22.04", told.append, pull.silent)
