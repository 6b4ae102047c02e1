"""Damaged records, over every command that reads one: one line, the right status, no hang."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, wait_until
from core.lifecycle.leftovers import assert_nothing, cgroups
from layers import layer_of
from minirun.common.docker_record import DockerRecord
from minirun.core.keeping import state
from minirun.core.keeping.container_record import ContainerRecord
from minirun.running import own_cgroup
from records import whole
from shapes import call

NAME = "broken"
Damage = Callable[[Path, dict[str, Any]], None]


def _text(content: bytes) -> Damage:
    return lambda path, _: path.write_bytes(content) and None


def _cut(length: float) -> Damage:
    def damage(path: Path, row: dict[str, Any]) -> None:
        text = json.dumps(row)
        path.write_text(text[: int(length * len(text))])

    return damage


def _with(**changes: Any) -> Damage:
    return lambda path, row: path.write_text(json.dumps(row | changes)) and None


def _replaced(old: str, new: str) -> Damage:
    def damage(path: Path, row: dict[str, Any]) -> None:
        text = json.dumps(row)
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return damage


def _dropped(key: str) -> Damage:
    def damage(path: Path, row: dict[str, Any]) -> None:
        path.write_text(json.dumps({name: value for name, value in row.items() if name != key}))

    return damage


def _directory(path: Path, _: dict[str, Any]) -> None:
    (path / "inner").mkdir(parents=True)


def _fifo(path: Path, _: dict[str, Any]) -> None:
    os.mkfifo(path)


def _link(path: Path, row: dict[str, Any]) -> None:
    target = path.parents[2] / "elsewhere.json"
    target.write_text(json.dumps(row))
    path.symlink_to(target)


def _dangling(path: Path, _: dict[str, Any]) -> None:
    path.symlink_to("/nosuch/file")


def _node(path: Path, _: dict[str, Any]) -> None:
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero: no end


def _anothers(path: Path, row: dict[str, Any]) -> None:
    path.write_text(json.dumps(row))
    os.chown(path, 1000, 1000)


def _open_to_all(path: Path, row: dict[str, Any]) -> None:
    path.write_text(json.dumps(row))
    path.chmod(0o666)


def _huge(path: Path, row: dict[str, Any]) -> None:
    path.write_text(json.dumps(row))
    os.truncate(path, 1 << 40)


DEFAULTS = ContainerRecord._field_defaults
REQUIRED = [name for name in ContainerRecord._fields if name not in DEFAULTS]
OPTIONAL = [*(name for name in DEFAULTS if name not in ("choices", "rest")), *DockerRecord._fields]
PROCESS = {"pid": 1, "start": 1, "boot": "x"}
CGROUP = {"version": 2, "path": "/minirun/broken", "dirs": {"": "/sys/fs/cgroup/minirun/broken"}}
DAMAGES: dict[str, Damage] = {
    **{f"cut at {share}": _cut(share) for share in (0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999)},
    **{f"no {key}": _dropped(key) for key in REQUIRED},
    **{f"{key} is a list": _with(**{key: [1]}) for key in REQUIRED},
    **{f"{key} is a number": _with(**{key: 5.5}) for key in OPTIONAL},
    "nothing but NULs": _text(b"\0" * 4096), "not UTF-8": _text(b"\xff\xfe{}"),
    "UTF-16": _text("{}".encode("utf-16")), "a list": _text(b"[]"), "null": _text(b"null"),
    "a number": _text(b"1"), "a text": _text(b'"text"'), "an empty object": _text(b"{}"),
    "nested": _text(b"[" * 100_000), "nested objects": _text(b'{"status":' * 100_000),
    "nested and closed": _with(annotations={"a": json.loads("[" * 500 + "]" * 500)}),
    "two values": _text(b"{} {}"), "no JSON": _text(b"nonsense"),
    "NaN": _replaced('"pid": ', '"pid": NaN, "x": '),
    "infinity": _replaced('"pid": ', '"pid": 1e999, "x": '),
    "a number of 5,000 digits": _replaced('"pid": ', f'"pid": {"9" * 5000}, "x": '),
    "a large number": _replaced('"pid": ', f'"pid": {"9" * 30}, "x": '),
    "half a surrogate": _replaced('"image": "', r'"image": "\ud800'),
    "a NUL in a path": _with(bundle="/b\0c"), "a NUL in the image": _with(image="a\0b"),
    "pid -1": _with(pid=-1), "pid true": _with(pid=True), "an unknown status": _with(status="x"),
    "created yesterday": _with(created="yesterday"),
    "created on February 30": _with(created="2026-02-30T00:00:00.0Z"),
    "finished never": _with(finished="never", exit_status=0),
    "init -1": _with(init={**PROCESS, "pid": -1}), "init 0": _with(init={**PROCESS, "pid": 0}),
    "half an init": _with(init={"pid": 1}), "no supervisor": _with(supervisor=None),
    "supervisor without a boot": _with(supervisor={"pid": 1, "start": 1, "boot": None}),
    "another's id": _with(id="other"), "another's directory": _with(directory="/var/lib"),
    "cgroups everywhere": _with(cgroup={**CGROUP, "path": "/", "dirs": {"": "/"}}),
    "a cgroup above": _with(cgroup={**CGROUP, "path": "/../x", "dirs": {"": "/../x"}}),
    "a cgroup elsewhere": _with(cgroup={**CGROUP, "dirs": {"": "/home/minirun/broken"}}),
    "cgroup 3": _with(cgroup={**CGROUP, "version": 3}), "no dirs": _with(cgroup={"version": 2}),
    "a cgroup without dirs": _with(cgroup={**CGROUP, "version": 1, "dirs": {}}),
    "dirs of numbers": _with(cgroup={**CGROUP, "dirs": {"": 5}}),
    "another's cgroup": _with(cgroup_path="/system.slice"),
    "cgroups v3": _with(cgroup_version="v3"), "choices": _with(choices={"nosuch": 1}),
    "args of numbers": _with(args=[1, 2]), "annotations of lists": _with(annotations={"a": []}),
    "origin of numbers": _with(origin={"engine": 5}), "exit status 999": _with(exit_status=999),
    "a directory": _directory, "a FIFO": _fifo, "a link": _link, "a dangling link": _dangling,
    "a node": _node, "another user's": _anothers, "open to all": _open_to_all, "huge": _huge,
}  # fmt: skip
ACTING_ONLY = ("a cgroup elsewhere", "another's cgroup")
"""What only a command that acts on the container looks at: to a list it is like any other."""
COMMANDS: tuple[tuple[tuple[str, ...], int], ...] = (
    (("state", NAME), 1), (("start", NAME), 1), (("kill", NAME), 1), (("kill", "-a", NAME), 1),
    (("exec", NAME, "true"), 1), (("pause", NAME), 1), (("resume", NAME), 1),
    (("update", "--pids-limit", "5", NAME), 1), (("ps", NAME), 1), (("delete", NAME), 1),
    (("inspect", NAME), 1), (("inspect", "--json", NAME), 1), (("logs", NAME), 1),
    (("events", "--stats", NAME), 1), (("checkpoint", NAME), 1), (("gpu", "why", NAME), 1),
    (("gc",), 1),
)  # fmt: skip
_SHARE = 3
"""Each record is tried with every third command, each command with a third of all records."""
LISTS = (("ps", "-a"), ("ps", "-aq"), ("list",), ("list", "-q"), ("list", "-f", "json"))


@pytest.fixture
def damaged(request: pytest.FixtureRequest, minirun: Program) -> Iterator[Path]:
    """A container's directory with a record that is damaged, beside one that is whole."""
    for name in (NAME, "whole"):
        directory = minirun.directory(name)
        directory.mkdir(parents=True, mode=0o700)
        config = {"ociVersion": "1.2.0", "root": {"path": "rootfs"}, "linux": {"namespaces": []}}
        (directory / "config.json").write_text(json.dumps(config))
        own = own_cgroup(str(minirun.root), name, systemd=False)
        gone = {"pid": 1, "start": 1, "boot": "an earlier one"}
        row = whole(
            str(directory), cgroup_path=own, init=gone, supervisor=gone, image="busybox:latest"
        )
        (directory / "state.json").write_text(json.dumps(row.as_json()))
        if name == NAME:
            (directory / "state.json").unlink()
            DAMAGES[request.param](directory / "state.json", row.as_json())
    yield minirun.directory(NAME)
    shutil.rmtree(minirun.root)


def one_line(said: str) -> str:
    assert "Traceback" not in said
    assert said.startswith("minirun: ") and said.count("\n") == 1, said
    assert said[:-1].isprintable(), said
    return said


def test_there_are_enough() -> None:
    assert len(DAMAGES) >= 69


# a command may leave files open, since its process ends with it
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("damaged", DAMAGES, indirect=True)
def test_every_command_says_so_in_one_line(
    request: pytest.FixtureRequest, minirun: Program, damaged: Path
) -> None:
    name = request.node.callspec.params["damaged"]
    first = list(DAMAGES).index(name) % _SHARE
    for words, status in COMMANDS[first::_SHARE]:
        if name in ACTING_ONLY and words[0] in ("state", "logs", "gc"):
            continue
        ended, said = call(minirun, *words)
        assert ended == status, (words, said)
        assert "damaged" in one_line(said), (words, said)
    for words in LISTS[first::_SHARE]:
        done = minirun(*words, timeout=20)
        assert done.returncode == 0, (words, done)
        assert NAME in done.stdout and "whole" in done.stdout, (words, done)
        if name not in ACTING_ONLY:
            one_line(done.stderr)
            assert words[-1] in ("-q", "-aq") or "amaged" in done.stdout, done
    done = minirun("delete", "--force", NAME, timeout=20)
    assert done.returncode == 0, done
    assert "removed without its record" in one_line(done.stderr)
    assert not os.path.lexists(damaged)
    assert minirun.directory("whole").is_dir()


@pytest.mark.parametrize(
    "damage", ["a list", "no init", "a FIFO", "another's cgroup", "cut at 0.5"]
)
@pytest.mark.parametrize("words", [("busybox", "sh", "-c", "sleep 100 & sleep 100"), ()])
def test_delete_force_ends_what_runs(
    minirun: Program, tmp_path: Path, damage: str, words: tuple[str, ...]
) -> None:
    """A container of `run`, and an engine's: its cgroup is named in config.json, with its id."""
    name = f"damaged-{os.getpid()}-0123456789"
    own = f"/engine-{os.getpid()}/x-{name}"
    if words:
        minirun("run", "-d", "--name", name, *words)
    else:
        _create(minirun, tmp_path, name, own)
    path = minirun.directory(name) / "state.json"
    row = json.loads(path.read_text())
    there = row["cgroup"]["dirs"].values()
    path.unlink()
    DAMAGES[damage](path, row)
    done = minirun("delete", "--force", name)
    assert done.returncode == 0, done
    assert f"{3 if words else 1} processes killed" in one_line(done.stderr).replace(
        "2 proc", "3 proc"
    )
    wait_until(lambda: not Path(f"/proc/{row['init']['pid']}").exists())
    wait_until(lambda: not Path(f"/proc/{row['supervisor']['pid']}").exists())
    assert not [place for place in there if os.path.exists(place)]
    assert cgroups(minirun) == [] and minirun.left() == []
    for place in there:
        if not words and os.path.isdir(os.path.dirname(place)):
            os.rmdir(os.path.dirname(place))


def _create(minirun: Program, bundle: Path, name: str, cgroup: str) -> None:
    config = json.loads(minirun("spec", "busybox", "sleep", "100").stdout)
    (bundle / "rootfs").mkdir()
    layer = layer_of("busybox")
    subprocess.run(["cp", "-a", f"{layer}/.", bundle / "rootfs"], check=True)
    config["root"]["path"] = str(bundle / "rootfs")
    config["annotations"] = {}
    config["linux"]["cgroupsPath"] = cgroup
    (bundle / "config.json").write_text(json.dumps(config))
    with open(os.devnull) as null:
        argv = minirun.argv("create", "--bundle", str(bundle), name)
        subprocess.run(argv, stdin=null, stdout=null, stderr=null, check=True)
    minirun("start", name)


def test_a_cgroup_that_may_be_anothers_is_said_and_left(minirun: Program, tmp_path: Path) -> None:
    name, cgroup = f"left-{os.getpid()}", f"/engine-{os.getpid()}"
    _create(minirun, tmp_path, name, cgroup)
    path = minirun.directory(name) / "state.json"
    row = json.loads(path.read_text())
    path.write_text("[]")
    done = minirun("delete", "--force", name)
    assert done.returncode == 1
    assert f"whose cgroup {cgroup} is, is not sure: it is left, with 1 proc" in one_line(
        done.stderr
    )
    assert state.is_alive(row["init"])
    path.write_text(json.dumps(row))
    assert minirun("delete", "--force", name).returncode == 0
    assert_nothing(minirun, name)


def test_mounts_below_the_directory_go(minirun: Program) -> None:
    directory = minirun.directory(NAME)
    (directory / "rootfs").mkdir(parents=True)
    (directory / "state.json").write_text("[]")
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", directory / "rootfs"], check=True)
    assert minirun("delete", "--force", NAME).returncode == 0
    assert minirun.left() == []
    assert str(directory) not in Path("/proc/self/mountinfo").read_text()


def test_a_damaged_config_does_not_matter(minirun: Program) -> None:
    name = f"config-{os.getpid()}"
    for content in (b"", b"[]", b'{"root": 5}', b'{"root": {}, "linux": []}', b"\xff", b"{" * 9999):
        minirun("run", "-d", "--name", name, "busybox", "sleep", "100")
        (minirun.directory(name) / "config.json").write_bytes(content)
        assert minirun("ps", "-a", "--format", "{{.Names}}").stdout == f"{name}\n"
        for words in (("state", name), ("ps", name), ("inspect", name), ("exec", name, "true")):
            assert "Traceback" not in minirun(*words).stderr
        assert minirun("delete", "--force", name).returncode == 0
        assert_nothing(minirun, name)
