"""runc and crun in ten kinds of container: stages in order, each actor checked against facts.

The facts are of the runtime's state, of hooks that write down who they are, and of the container.
"""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import Program
from minirun.faces.show.log.recording import Recording, read
from required import installed

Json = dict[str, Any]
SELF = 'echo "$1 $$ $(readlink /proc/self/ns/mnt) $(readlink /proc/self/ns/pid)" >>'
"""What a hook writes down: its kind, its pid, its namespaces."""


class Bundle(NamedTuple):
    """A bundle of a test, and the file in which hooks write who they are."""

    path: Path
    facts: Path


class Runtime:
    """runc or crun, with a state root of its own.

    crun refuses a cgroup2 beside version 1's hierarchies, so it works where none is mounted.
    """

    def __init__(self, name: str, program: Program, folder: Path) -> None:
        self.name = name
        self.path = installed(name)
        self.program = program
        self.folder = folder
        self.log = folder / "seen.jsonl"
        self.errors = folder / "stderr"
        self.names: list[str] = []

    def argv(self, *args: str) -> list[str]:
        return [self.path, "--root", str(self.folder / "state"), *args]

    def apart(self, words: list[str], where: str = "/dev/null") -> list[str]:
        """`words` for a shell that first writes its mount namespace to a file."""
        script = f'readlink /proc/self/ns/mnt > {where}; exec "$@"'
        if self.name == "runc":
            return ["sh", "-c", script, "sh", *words]
        hide = "umount --all --types cgroup2"
        return ["unshare", "--mount", "sh", "-c", f"{hide}; {script}", "sh", *words]

    @property
    def host(self) -> str:
        """The mount namespace in which it was observed."""
        return (self.folder / "host").read_text().strip()

    def seen(self, *args: str, stays: bool = False, **options: Any) -> tuple[Done, Recording]:
        """Observe a command; return how it ended, and what was seen.

        Its standard error is a file, and so is its output if the container `stays`, since it keeps
        them open. Its input is a pipe: crun makes the container's root the owner of /dev/null.
        """
        self.names.append(args[-1])
        words = [self.program.path, "observe", "-o", str(self.log), "--", *self.argv(*args)]
        with self.errors.open("w") as errors:
            output = errors if stays else subprocess.PIPE
            streams = {"stdout": output, "stderr": errors, **options}
            if not options.keys() & {"stdin", "input"}:
                streams["input"] = ""
            words = self.apart(words, str(self.folder / "host"))
            done = subprocess.run(words, text=True, timeout=100, check=False, **streams)
        (found,) = read(self.log)
        return Done(done.returncode, done.stdout or "", self.errors.read_text()), found

    def __call__(self, *args: str) -> str:
        words = self.apart(self.argv(*args))
        done = subprocess.run(words, input="", capture_output=True, text=True, check=True)
        return done.stdout

    def clean(self) -> None:
        for name in self.names:
            words = self.apart(self.argv("delete", "--force", name))
            subprocess.run(words, capture_output=True, check=False)


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(params=["runc", "crun"])
def runtime(
    request: pytest.FixtureRequest, reachable: Program, tmp_path: Path
) -> Iterator[Runtime]:
    found = Runtime(request.param, reachable, tmp_path)
    yield found
    found.clean()


def bundle_of(layer: Path, change: Callable[[Json], None] | None = None) -> Bundle:
    """Make a bundle of `layer` by `runc spec`, with a hook before init changes its root."""
    folder, facts = layer.parent, layer.parent / "facts"
    subprocess.run([installed("runc"), "spec"], cwd=folder, check=True)
    path = folder / "config.json"
    config: Json = json.loads(path.read_text())
    config["ociVersion"] = "1.0.2"  # Ubuntu 24.04's crun refuses that of its runc
    config["process"] |= {"terminal": False, "args": ["true"]}
    config["hooks"] = {"prestart": [_hook("prestart", facts)]}
    if change:
        change(config)
    path.write_text(json.dumps(config))
    return Bundle(folder, facts)


def _hook(kind: str, facts: Path, end: int = 0) -> Json:
    script = f"{SELF} {facts}; cat >/dev/null; exit {end}"
    return {"path": "/bin/sh", "args": ["sh", "-c", script, "sh", kind]}


def _told(bundle: Bundle) -> list[tuple[str, int, str]]:
    """Kind of a hook, its pid, its mount namespace: as it wrote them down."""
    rows = [line.split() for line in bundle.facts.read_text().splitlines()]
    return [(row[0], int(row[1]), row[2]) for row in rows]


def _check(runtime: Runtime, found: Recording, bundle: Bundle, *stages: int) -> None:
    """The stages in their order; each prestart hook is a hook of stage 3, and on the host."""
    assert [stage.number for stage in found.stages] == list(stages or (1, 2, 3, 6, 7))
    begins = [stage.begin for stage in found.stages]
    assert begins == sorted(begins)
    actors = {event.pid: event.actor for event in found.events if event.kind == "exec"}
    for kind, pid, namespace in _told(bundle):
        if kind == "prestart":
            assert actors[pid] == "hook"
            assert namespace == runtime.host
            assert {e.stage for e in found.events if e.pid == pid and e.kind == "exec"} == {3}
    assert found.birth
    assert found.birth.actor in ("runtime", "nsexec")


def _plain(config: Json) -> None:
    pass


def _user_namespace(config: Json) -> None:
    config["linux"]["namespaces"].append({"type": "user"})
    ids = [{"containerID": 0, "hostID": 100000, "size": 65536}]
    config["linux"] |= {"uidMappings": ids, "gidMappings": ids}


def _limits(config: Json) -> None:
    config["linux"]["resources"] |= {
        "memory": {"limit": 64 << 20}, "pids": {"limit": 99}, "cpu": {"shares": 512},
    }  # fmt: skip


KINDS = {"plain": _plain, "user namespace": _user_namespace, "limits": _limits}


@pytest.mark.parametrize("kind", KINDS)
def test_create_and_start(runtime: Runtime, layer: Path, kind: str) -> None:
    """What the state names as the container's process is init."""
    if kind == "user namespace":
        layer = _outside(runtime, layer)
    bundle = bundle_of(layer, KINDS[kind])
    name = f"seen-{os.getpid()}"
    done, found = runtime.seen("create", "--bundle", str(bundle.path), name, stays=True)
    assert done.returncode == 0, done.stderr
    state = json.loads(runtime("state", name))
    assert state["status"] == "created"
    assert found.init == state["pid"]
    assert found.id == name
    assert not found.stages[-1].end, "init waits for start"
    _check(runtime, found, bundle)
    theirs = os.readlink(f"/proc/{state['pid']}/ns/mnt")
    assert theirs not in {namespace for _, _, namespace in _told(bundle)}
    names = {event.name for event in found.events if event.actor == "init"}
    assert {"mount", "pivot_root", "capset"} <= names
    if kind == "limits":
        written = [str(event.args) for event in found.events if event.name == "write"]
        assert any(str(64 << 20) in one and "memory" in one for one in written)


def _outside(runtime: Runtime, layer: Path) -> Path:
    """Copy a layer to where the root of a user namespace can reach it."""
    target = runtime.program.root.parent / "rootfs"
    return Path(shutil.copytree(layer, target, symlinks=True))


def test_run(runtime: Runtime, layer: Path) -> None:
    bundle = bundle_of(layer)
    done, found = runtime.seen("run", "--bundle", str(bundle.path), f"seen-{os.getpid()}")
    assert done.returncode == 0, done.stderr
    _check(runtime, found, bundle)
    assert found.complete
    last = [event for event in found.events if event.kind == "exec" and event.actor == "init"][-1]
    assert last.args["argv"] == ["true"]


def test_seccomp(runtime: Runtime, layer: Path) -> None:
    """Init loads the filter in stage 7, and the command has one."""

    def change(config: Json) -> None:
        rule = {"names": ["reboot"], "action": "SCMP_ACT_ERRNO"}
        config["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}
        config["process"]["args"] = ["grep", "Seccomp:", "/proc/self/status"]

    bundle = bundle_of(layer, change)
    done, found = runtime.seen("run", "--bundle", str(bundle.path), f"seen-{os.getpid()}")
    assert done.stdout.split() == ["Seccomp:", "2"]
    _check(runtime, found, bundle)
    loads = [e for e in found.events if "seccomp" in f"{e.name} {e.args.get('option')}".lower()]
    assert {(event.actor, event.stage) for event in loads} == {("init", 7)}


def test_hooks_of_each_kind(runtime: Runtime, layer: Path) -> None:
    kinds = ("prestart", "createRuntime", "createContainer", "poststart", "poststop")

    def change(config: Json) -> None:
        facts = layer.parent / "facts"
        config["hooks"] = {kind: [_hook(kind, facts)] for kind in kinds}

    bundle = bundle_of(layer, change)
    done, found = runtime.seen("run", "--bundle", str(bundle.path), f"seen-{os.getpid()}")
    assert done.returncode == 0, done.stderr
    _check(runtime, found, bundle)
    told = _told(bundle)
    assert [kind for kind, _, _ in told] == list(kinds)
    executed = {e.pid: e for e in found.events if e.kind == "exec" and e.actor == "hook"}
    host = {pid for kind, pid, _ in told if kind != "createContainer"}
    assert host <= executed.keys()
    stages = {kind: executed[pid].stage for kind, pid, _ in told if pid in executed}
    assert (stages["prestart"], stages["createRuntime"]) == (3, 3)
    (inside,) = [namespace for kind, _, namespace in told if kind == "createContainer"]
    assert inside != runtime.host


def test_gpus_by_the_hook(runtime: Runtime, layer: Path, reachable: Program) -> None:
    """minirun's nvidia-container-runtime-hook in the place of NVIDIA's."""

    def change(config: Json) -> None:
        args = ["minirun", "nvidia-container-runtime-hook", "prestart"]
        env = ["MINIRUN_SIM=count=4", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
        config["hooks"] = {"prestart": [{"path": reachable.path, "args": args, "env": env}]}
        config["process"]["env"].append("NVIDIA_VISIBLE_DEVICES=0,1")
        config["process"]["args"] = ["ls", "/dev"]

    bundle = bundle_of(layer, change)
    done, found = runtime.seen("run", "--bundle", str(bundle.path), f"seen-{os.getpid()}")
    assert "nvidia0\nnvidia1\nnvidiactl" in done.stdout
    assert [stage.number for stage in found.stages] == [1, 2, 3, 4, 5, 6, 7]
    assert found.complete
    nodes = [e for e in found.events if e.name == "mknodat" and e.actor == "cli"]
    assert {e.stage for e in nodes} == {5}
    assert {Path(str(e.args["path"])).name for e in nodes} >= {"nvidia0", "nvidia1", "nvidiactl"}
    rules = [e for e in found.events if e.name == "write" and "devices.allow" in str(e.args)]
    assert any(e.stage == 5 and "195:0 rw" in str(e.args["data"]) for e in rules)
    assert "ldconfig" in {e.actor for e in found.events if e.kind == "exec"}


def test_a_terminal(runtime: Runtime, layer: Path) -> None:
    """The terminal is the command's own: it sees one, and of the size that it has."""

    def change(config: Json) -> None:
        config["process"] |= {"terminal": True, "args": ["sh", "-c", script]}

    script = "tty && test -t 1 && sleep 0.3"  # crun may end before it has passed all on
    bundle = bundle_of(layer, change)
    ours, theirs = pty.openpty()
    try:
        done, found = runtime.seen(
            "run", "--bundle", str(bundle.path), f"seen-{os.getpid()}",
            stdin=theirs, stdout=theirs, start_new_session=True,
        )  # fmt: skip
        assert select.select([ours], [], [], 5)[0], "the terminal said nothing"
        assert b"/dev/pts/0" in os.read(ours, 4096)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0
    _check(runtime, found, bundle)


def test_a_failing_hook(runtime: Runtime, layer: Path) -> None:
    def change(config: Json) -> None:
        config["hooks"] = {"prestart": [_hook("prestart", layer.parent / "facts", end=7)]}

    bundle = bundle_of(layer, change)
    done, found = runtime.seen("run", "--bundle", str(bundle.path), f"seen-{os.getpid()}")
    assert done.returncode
    _check(runtime, found, bundle, 1, 2, 3)
    ((_, pid, _),) = _told(bundle)
    (failed,) = [event for event in found.events if event.name == "failed by"]
    assert (failed.pid, failed.actor, failed.stage) == (pid, "hook", 3)
    assert failed.args["call"] == "exit_group(7) = ?"


def test_the_commands_status_and_output_are_its_own(runtime: Runtime, layer: Path) -> None:
    def change(config: Json) -> None:
        config["process"]["args"] = ["sh", "-c", "cat; echo err >&2; exit 5"]

    bundle = bundle_of(layer, change)
    done, found = runtime.seen(
        "run", "--bundle", str(bundle.path), f"seen-{os.getpid()}", input="hello\n"
    )
    assert (done.returncode, done.stdout) == (5, "hello\n")
    assert done.stderr.startswith("err\n")
    assert found.complete


def test_a_missing_command(runtime: Runtime, layer: Path) -> None:
    """Init looks for it in each folder of PATH, in stage 7; the end says so, and what it means."""
    bundle = bundle_of(layer, lambda config: config["process"].update(args=["nosuch"]))
    done, found = runtime.seen("run", "--bundle", str(bundle.path), f"seen-{os.getpid()}")
    assert done.returncode
    _check(runtime, found, bundle)
    assert not found.complete
    (failed,) = [event for event in found.events if event.name == "failed by"]
    assert (failed.actor, failed.stage, failed.pid) == ("init", 7, found.init)
    assert "nosuch" in str(failed.args["call"])
    assert "ENOENT" in str(failed.args["call"])
    assert "the image has no such command" in " ".join(done.stderr.split())


def test_start_alone(runtime: Runtime, layer: Path) -> None:
    """Init waited already: it is followed too, and what is seen is the end of stage 7."""
    bundle = bundle_of(layer)
    name = f"seen-{os.getpid()}"
    runtime.seen("create", "--bundle", str(bundle.path), name, stays=True)
    pid = json.loads(runtime("state", name))["pid"]
    done, found = runtime.seen("start", name)
    assert done.returncode == 0, done.stderr
    assert (found.id, [stage.number for stage in found.stages]) == (name, [7])
    (last,) = [e for e in found.events if e.kind == "exec" and e.actor == "init"]
    assert (last.pid, last.args["argv"], last.stage) == (pid, ["true"], 7)
    assert {"runtime", "init"} == set(found.actors)
    assert {m.sender for m in found.messages} | {m.receiver for m in found.messages} == {
        "runtime", "init",
    }  # fmt: skip
    done, found = runtime.seen("state", name)
    assert (found.stages, done.returncode) == ([], 0)
    assert "no stage was seen" in done.stderr
