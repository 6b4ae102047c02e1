"""How docker's own command line reads the flags of `run`, and minirun's: the same values.

docker parses them before it speaks to its daemon. A server in the daemon's place writes down what
it is asked to create, and refuses.
"""

import http.server
import json
import os
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from required import installed


class _Daemon(http.server.BaseHTTPRequestHandler):
    """Answers the version, and refuses to create."""

    asked: list[dict[str, Any]] = []

    def do_GET(self) -> None:
        self.answer(200, b"OK")

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "/containers/create" in self.path:
            self.asked.append(json.loads(body))
        self.answer(500, b'{"message": "written down"}')

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Api-Version", "1.41")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        try:
            self.end_headers()
            self.wfile.write(body if self.command != "HEAD" else b"")
        except BrokenPipeError:
            pass  # the client has heard enough

    def address_string(self) -> str:
        return "docker"

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[Any]:
    """Call docker's client; return what it asks of the daemon, or None if it refuses the flags."""
    program = installed("docker")
    socket = str(tmp_path / "docker.sock")
    server = socketserver.ThreadingUnixStreamServer(socket, _Daemon)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def call(*words: str) -> dict[str, Any] | None:
        _Daemon.asked.clear()
        done = subprocess.run(
            [program, "run", "--rm", *words, "busybox", "true"], cwd=tmp_path,
            env=os.environ | {"DOCKER_HOST": f"unix://{socket}", "HOME": str(tmp_path)},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert _Daemon.asked or "written down" not in done.stderr, done.stderr
        assert _Daemon.asked or "connect" not in done.stderr, done.stderr
        return _Daemon.asked[0] if _Daemon.asked else None

    yield call
    server.shutdown()
    server.server_close()


def spec(minirun: Program, *words: str) -> dict[str, Any] | None:
    done = minirun("spec", *words, "busybox")
    return json.loads(done.stdout) if done.returncode == 0 else None


@pytest.mark.parametrize(
    "text",
    ["1.5g", "1g", "0.5G", "512", "64MiB", "64 mb", "1.5", "1..5g", "x", "-1g", "7kb", "1 k",
     "0.1m", "1,5g"],
)  # fmt: skip
def test_sizes(minirun: Program, docker: Any, text: str) -> None:
    asked, document = docker("--shm-size", text), spec(minirun, "--shm-size", text)
    theirs = asked and f"size={asked['HostConfig']['ShmSize']}"
    mounts = {row["destination"]: row["options"] for row in document["mounts"]} if document else {}
    assert theirs is document is None or theirs in mounts["/dev/shm"]


@pytest.mark.parametrize(
    "text",
    [
        "type=bind,src=/etc,dst=/x", "type=Bind,src=/etc,dst=/x", "TYPE=bind,Source=/etc,DST=/x",
        '"type=bind","src=/etc","dst=/x"', 'type=bind,"src={}/a,b",dst=/x',
        'type=bind,"src={}/a""b",dst=/x', 'type=bind,src={}/a"b,dst=/x',
        'type=bind,"src=/etc,dst=/x',
        'type=bind,"src=/etc"x,dst=/x', "type=bind,src=/etc,dst=/x,readonly=TRUE",
        "type=bind,src=/etc,dst=/x,ro=True", "type=bind,src=/etc,dst=/x,ro=t",
        "type=bind,src=/etc,dst=/x,ro=F", "type=bind,src=/etc,dst=/x,ro=yes",
        "type=bind,src=/etc,dst=/x,readonly", "type=tmpfs,dst=/x,tmpfs-size=1.5m",
        "type=TMPFS,dst=/x,tmpfs-mode=0700", "type=bind,src=/etc,dst",
    ],
)  # fmt: skip
def test_mount(minirun: Program, docker: Any, tmp_path: Path, text: str) -> None:
    for name in ("a,b", 'a"b'):
        (tmp_path / name).mkdir()
    text = text.replace("{}", str(tmp_path))
    asked, document = docker("--mount", text), spec(minirun, "--mount", text)
    assert (asked is None) == (document is None)
    if not (asked and document):
        return
    (theirs,) = asked["HostConfig"]["Mounts"]
    (ours,) = [row for row in document["mounts"] if row["destination"] == "/x"]
    assert theirs["Target"] == "/x"
    assert ours["source"] == theirs.get("Source", "tmpfs")
    assert ("ro" in ours["options"]) == theirs.get("ReadOnly", False)
    tmpfs = theirs.get("TmpfsOptions") or {}
    size = [word for word in ours["options"] if word.startswith("size=")]
    assert size == ([f"size={tmpfs['SizeBytes']}"] if "SizeBytes" in tmpfs else [])
    mode = [int(word[5:], 8) for word in ours["options"] if word.startswith("mode=")]
    assert mode == ([tmpfs["Mode"]] if "Mode" in tmpfs else [])


@pytest.mark.parametrize("words", [("-h", "box"), ("-hbox",), ("--hostname=box",), ("-h", "-x")])
def test_hostname(minirun: Program, docker: Any, words: tuple[str, ...]) -> None:
    asked, document = docker(*words), spec(minirun, *words)
    assert asked and document and document["hostname"] == asked["Hostname"]


@pytest.mark.parametrize("source", ["./data", "../y", "/etc", "."])
def test_a_path_of_a_volume(docker: Any, minirun: Program, tmp_path: Path, source: str) -> None:
    """docker's client makes a path absolute, and leaves a name as it is: the name of a volume."""
    (tmp_path / "data").mkdir()
    (tmp_path.parent / "y").mkdir(exist_ok=True)
    (theirs,) = docker("-v", f"{source}:/x")["HostConfig"]["Binds"]
    assert docker("-v", "data:/x")["HostConfig"]["Binds"] == ["data:/x"]
    document = json.loads(minirun("spec", "-v", f"{source}:/x", "busybox", cwd=tmp_path).stdout)
    (ours,) = [row for row in document["mounts"] if row["destination"] == "/x"]
    assert f"{ours['source']}:/x" == theirs
    document = json.loads(minirun("spec", "-v", "data:/x", "busybox", cwd=tmp_path).stdout)
    (ours,) = [row for row in document["mounts"] if row["destination"] == "/x"]
    assert ours["source"].endswith("/volumes/data/_data")
