"""Containers of every state root are found, and the log has the detail that was asked for."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from conftest import STORE, Program
from minirun.core.keeping.settings import Settings
from minirun.engines import roots

CRI = {
    "io.kubernetes.cri.container-type": "container",
    "io.kubernetes.cri.sandbox-namespace": "default",
    "io.kubernetes.cri.sandbox-name": "web-0",
    "io.kubernetes.cri.container-name": "nginx",
    "io.kubernetes.cri.image-name": "docker.io/library/nginx:1",
}
Bundle = Callable[..., Path]
DETAILS = [
    ({}, {}, True),
    ({"MINIRUN_LOG": "stages"}, {}, False),
    ({"MINIRUN_LOG": "syscalls"}, {}, True),
    ({"MINIRUN_LOG": "stages"}, {"io.minirun.log": "syscalls"}, True),
    ({"MINIRUN_LOG": ""}, {"io.minirun.log": "stages"}, False),
    ({"MINIRUN_LOG": "off"}, {"io.minirun.log": "stages"}, False),
]


def run(argv: list[str], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program; what it says goes to files, since a container that is made keeps them."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        done = subprocess.run(argv, env=env, stdout=out, stderr=err, check=False, timeout=60)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(argv, done.returncode, out.read(), err.read())


class Host:
    """The command without --root, as a user types it, and with one, as engines do."""

    def __init__(self, path: str, folder: Path) -> None:
        self.path = path
        self.own = folder / "store/containers"
        self.settings = Settings(str(self.own), str(folder / "store"))
        self.env = os.environ | {"MINIRUN_STORE": str(folder / "store")}
        self.env.pop("MINIRUN_ROOT", None)

    def __call__(
        self, *args: str, root: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        flags = ["--root", str(root)] if root else []
        return run([self.path, *flags, *args], self.env | env)

    def good(self, *args: str, root: Path | None = None, **env: str) -> str:
        done = self(*args, root=root, **env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def registered(self) -> list[str]:
        return [str(path.readlink()) for path in Path(self.settings.store, "roots").glob("*")]


@pytest.fixture
def host(command: str, tmp_path: Path) -> Iterator[Host]:
    """minirun with a store of its own, whose image is the shared store's busybox."""
    found = Host(command, tmp_path)
    (tmp_path / "store").mkdir()
    yield found
    for root in {str(found.own), *found.registered()}:
        for path in Path(root).glob("[!.]*"):
            found("delete", "--force", path.name, root=Path(root))


@pytest.fixture
def bundle(command: str, tmp_path: Path, layer: Path) -> Bundle:
    """Make a bundle below a folder that tells of its engine."""

    def make(folder: str, *args: str, **annotations: str) -> Path:
        place = tmp_path / folder
        place.mkdir(parents=True)
        argv = [command, "--store", STORE, "spec", "busybox", *(args or ("sleep", "60"))]
        config = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
        config["annotations"] = annotations
        config["root"] = {"path": str(layer), "readonly": True}
        config["process"].pop("rlimits", None)
        (place / "config.json").write_text(json.dumps(config))
        return place

    return make


def rows(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_containers_of_every_root(host: Host, bundle: Bundle, tmp_path: Path) -> None:
    cri, moby = tmp_path / "run/k8s.io", tmp_path / "run/moby"
    long = f"{os.getpid():x}".rjust(8, "a") + "0" * 56
    host.good("create", "-b", str(bundle("a", **CRI)), long, root=cri)
    host.good("start", long, root=cri)
    tasks = "io.containerd.runtime.v2.task"
    docker = f"d-{os.getpid()}"
    host.good("create", "-b", str(bundle(f"{tasks}/moby/{docker}")), docker, root=moby)
    host.good("delete", "--force", docker, root=moby)
    by_hand = f"p-{os.getpid()}"
    host.good("create", "-b", str(bundle("c")), by_hand)
    assert sorted(host.registered()) == sorted(map(str, (cri, moby)))

    head, plain, gone, living = rows(host.good("timeline"))
    assert head.split()[:5] == ["NAME", "ID", "ENGINE", "LAST", "EVENT"]
    assert plain.startswith(f"{by_hand} {by_hand} plain ")
    assert plain.endswith(" created 123--6? unfinished")
    assert gone.startswith(f"{docker} {docker} docker ") and " removed 123--6? " in gone
    assert living.startswith(f"default/web-0/nginx {long[:12]} containerd/cri ")
    assert living.endswith(" running 123--67 started docker.io/library/nginx:1 sleep 60")

    for name in (long, long[:12]):
        assert host.good("timeline", name).startswith(f"container {long}: started after ")
        assert host.good("replay", name, "--text").startswith(f"container {long}: ")
        assert host.good("inspect", "--text", name).startswith(f"{long}: running")
        assert "sleep 60" in host.good("ps", name)
    assert host.good("timeline", docker).startswith(f"container {docker}: unfinished")
    refused = host("inspect", "--text", docker)
    assert f"container '{docker}' has been deleted" in refused.stderr

    for verb, engines in (("ps",), ["containerd/cri"]), (("ps", "-a"), ["containerd/cri", "plain"]):
        table = rows(host.good(*verb))
        assert table[0].endswith(" PORTS NAMES ENGINE")
        assert sorted(row.split()[-1] for row in table[1:]) == engines
    named = rows(host.good("timeline", root=moby))
    assert named[1].startswith(f"{docker} docker "), "--root names one"
    assert host.good("ps", "-aq", root=moby) == ""
    assert host("inspect", long[:12], root=moby).returncode == 1
    assert "sleep 60" in host.good("ps", long[:12], root=cri)


def test_a_begin_that_means_two(host: Host, bundle: Bundle, tmp_path: Path) -> None:
    place = str(bundle("a"))
    for n in (1, 2):
        host.good("create", "-b", place, f"two-{n}-{os.getpid()}", root=tmp_path / f"r{n}")
    theirs = tmp_path / "r1/two-of-runc"  # containerd keeps those of all runtimes at one place
    theirs.mkdir()
    (theirs / "state.json").write_text('{"id": "two-of-runc"}')
    done = host("inspect", "two")
    assert "two-of-runc" not in done.stderr + host.good("timeline") + host.good("ps", "-a")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "'two' may be two-" in done.stderr and "name the --root" in done.stderr


def test_the_begin_of_a_name_ends_no_container(host: Host, tmp_path: Path) -> None:
    """To look at, `inspect web` is enough for web2; `rm -f web` must not be the end of it."""
    (tmp_path / "store/images").symlink_to(f"{STORE}/images")
    name = f"web{os.getpid()}"
    host.good("run", "-d", "--name", f"{name}-2", "busybox", "sleep", "60", root=tmp_path / "r1")
    host.good("inspect", name)
    done = host("rm", "-f", name)
    assert done.returncode == 0 and "does not exist" in done.stderr
    assert host("stop", name).returncode == 1
    assert "running" in host.good("state", f"{name}-2", root=tmp_path / "r1")


def test_who_has_which_gpu_below_every_root(host: Host, tmp_path: Path) -> None:
    (tmp_path / "store/images").symlink_to(f"{STORE}/images")
    flags = ("-d", "--gpus", "1", "--gpu-driver=simulated")
    for n in (1, 2):
        host.good(
            "run", "--name", f"gpu-{n}-{os.getpid()}", *flags, "busybox", "sleep", "60",
            root=tmp_path / f"r{n}",
        )  # fmt: skip
    (row,) = [line for line in rows(host.good("gpu", "ps")) if line.startswith("1 ")]
    assert row.startswith("1 shared ") and all(f"gpu-{n}-{os.getpid()}" in row for n in (1, 2))


def test_a_root_that_is_gone_is_forgotten(host: Host, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        roots.remember(host.settings._replace(root=str(tmp_path / name)))
    host.good("run", "--rm", "busybox", "true")
    assert len(host.registered()) == 2, "the store's own root needs no entry"
    (tmp_path / "a").rmdir()
    assert roots.known(host.settings) == [str(host.own), str(tmp_path / "b")]
    assert host.registered() == [str(tmp_path / "b")]
    assert roots.known(host.settings._replace(root_is_named=True)) == [str(host.own)]


def test_a_root_with_several_paths_is_one(host: Host, tmp_path: Path) -> None:
    """As /var/run/user/1000 and /run/user/1000 are, and a user's own root, which is remembered."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name in ("real", "link"):
        roots.remember(host.settings._replace(root=str(tmp_path / name)))
    host.own.mkdir(parents=True)
    own = str(host.own)
    (first,) = roots.known(host.settings._replace(root=str(tmp_path / "link")))[:1]
    assert first == str(tmp_path / "link")
    for root in (own, str(tmp_path / "real"), str(tmp_path / "link")):
        found = roots.known(host.settings._replace(root=root))
        assert found[0] == root and len(found) == 2, "the store's own, and the other"


def test_the_list_of_roots_is_bounded(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roots, "LIMIT", 3)
    for n in range(5):
        root = tmp_path / f"r{n}"
        (root / ".history").mkdir(parents=True)
        if n == 1:
            (root / "living").mkdir()
        os.utime(root, (n, n))
        roots.remember(host.settings._replace(root=str(root)))
    assert sorted(host.registered()) == [str(tmp_path / f"r{n}") for n in (2, 3, 4)]
    kept = [n for n in range(5) if (tmp_path / f"r{n}/.history").exists()]
    assert kept == [1, 2, 3, 4], "what lives keeps its history"


def test_a_store_that_cannot_be_written_refuses_nothing(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    settings = Settings(str(tmp_path), str(tmp_path / "store"))
    roots.remember(settings)
    assert roots.known(settings) == [str(tmp_path)]


@pytest.mark.parametrize(("env", "annotations", "whole"), DETAILS)
def test_the_detail_of_the_log(
    minirun: Program,
    bundle: Bundle,
    env: dict[str, str],
    annotations: dict[str, str],
    whole: bool,
) -> None:
    name = f"log-{os.getpid()}"
    done = minirun("run", "-b", str(bundle("a", "true", **annotations)), name, env=env)
    assert done.returncode == 0, done.stderr
    found = minirun.events(name)
    for kind in ("begin", "end"):
        assert [e["stage"] for e in found if e["kind"] == kind] == [1, 2, 3, 6, 7]
    assert any(e["kind"] == "syscall" for e in found) == whole
    assert {"note", "message", "exec"} <= {str(e["kind"]) for e in found}
    (asked,) = [e for e in found if e["name"] == "origin"]
    args: Any = asked["args"]
    assert args["engine"] == "plain" and args["root"] == str(minirun.root)


def test_calls_that_were_left_out_are_not_counted(minirun: Program) -> None:
    flags = ("--rm", "--name", "brief", "--gpus=0,1", "--gpu-driver=simulated")
    done = minirun("run", *flags, "busybox", "true", env={"MINIRUN_LOG": "stages"})
    assert done.returncode == 0, done.stderr
    found = rows(minirun("timeline").stdout)[1]
    assert " removed 1234567 started 0,1 SIMULATED busybox true" in found
    text = minirun("timeline", "brief").stdout
    assert "done: GPUs SIMULATED" in text and "system call" not in text


def test_no_log_at_all(minirun: Program, bundle: Bundle) -> None:
    name = f"log-{os.getpid()}"
    done = minirun("run", "-b", str(bundle("a", "true")), name, env={"MINIRUN_LOG": "off"})
    assert done.returncode == 0
    assert not list(minirun.root.glob(".history/*"))


@pytest.mark.parametrize(
    ("env", "annotations", "text"),
    [
        ({"MINIRUN_LOG": "all"}, {}, "MINIRUN_LOG: unknown detail 'all' (off, stages or syscalls)"),
        (
            {},
            {"io.minirun.log": "off"},
            "config.json: annotations.io.minirun.log: unknown detail 'off' (stages or syscalls)",
        ),
    ],
)
def test_an_unknown_detail(
    minirun: Program,
    bundle: Bundle,
    env: dict[str, str],
    annotations: dict[str, str],
    text: str,
) -> None:
    done = minirun("create", "-b", str(bundle("a", **annotations)), "x", env=env)
    assert (done.returncode, done.stderr) == (1, f"minirun: {text}\n")
    assert not list(minirun.root.glob("*")), "nothing has been made"


def test_an_unknown_detail_stops_no_delete(minirun: Program, bundle: Bundle) -> None:
    name = f"log-{os.getpid()}"
    made = run(minirun.argv("create", "-b", str(bundle("a")), name), os.environ)
    assert made.returncode == 0, made.stderr
    done = minirun("delete", "--force", name, env={"MINIRUN_LOG": "all"})
    assert (done.returncode, done.stderr) == (0, "")
    assert not minirun.directory(name).exists()


def test_a_log_that_has_grown_too_much_is_closed(minirun: Program) -> None:
    """A Kubernetes probe executes a command every few seconds, for months."""
    name = f"log-{os.getpid()}"
    assert minirun("run", "-d", "--name", name, "busybox", "sleep", "60").returncode == 0
    log = minirun.directory(name) / "events.jsonl"
    before = log.stat().st_size
    assert minirun("exec", name, "true").returncode == 0
    assert log.stat().st_size > before
    os.truncate(log, (1 << 20) + 1)
    assert minirun("exec", name, "true").returncode == 0
    assert log.stat().st_size == (1 << 20) + 1
