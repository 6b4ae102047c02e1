"""`minirun observe` of an exec: a command in a container that runs already. It has no stages."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program
from faces.teach.observe.test_runtimes import Runtime, bundle_of
from minirun.faces.show.log.recording import read

SLEEP = ["sleep", "300"]


@pytest.fixture(params=["runc", "crun"])
def started(
    request: pytest.FixtureRequest, minirun: Program, layer: Path, tmp_path: Path
) -> Iterator[tuple[Runtime, str]]:
    runtime = Runtime(request.param, minirun, tmp_path)
    bundle = bundle_of(layer, lambda config: config["process"].update(args=SLEEP))
    name = f"entered-{os.getpid()}"
    runtime.names.append(name)
    words = runtime.apart(runtime.argv("run", "--detach", "--bundle", str(bundle.path), name))
    null = subprocess.DEVNULL
    subprocess.run(words, stdin=null, stdout=null, stderr=null, check=True)
    yield runtime, name
    runtime.clean()


def test_who_enters(started: tuple[Runtime, str]) -> None:
    """The command prints its namespaces and its pid on the host, as the kernel has them."""
    runtime, name = started
    script = "readlink /proc/self/ns/mnt; grep NSpid /proc/self/status"
    done, found = runtime.seen("exec", name, "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    state = json.loads(runtime("state", name))
    namespace, _, *inside = done.stdout.split()
    assert namespace == os.readlink(f"/proc/{state['pid']}/ns/mnt")
    assert (found.id, found.stages) == (name, [])
    command = [event for event in found.events if event.kind == "exec"][-1]
    assert (command.actor, command.args["argv"]) == ("exec", ["sh", "-c", script])
    assert "setns" in {event.name for event in found.events}
    assert {event.stage for event in found.events} == {0}
    assert inside
    assert "a command executed in it" in done.stderr


def test_a_command_that_is_not_there(started: tuple[Runtime, str]) -> None:
    runtime, name = started
    done, found = runtime.seen("exec", name, "nosuch")
    assert done.returncode
    (failed,) = [event for event in found.events if event.name == "failed by"]
    assert failed.actor == "exec"
    assert "nosuch" in str(failed.args["call"])


def test_minirun_itself(reachable: Program, tmp_path: Path) -> None:
    """The actor and the calls are those of its own log; its log's lines are no messages.

    There all of an exec's processes are called exec, the first one too.
    """
    name = f"entered-{os.getpid()}"
    assert reachable("run", "-q", "-d", "--name", name, "busybox", *SLEEP).returncode == 0
    log = tmp_path / "seen.jsonl"
    done = reachable("observe", "-o", str(log), "--", *reachable.argv("exec", name, "true"))
    assert done.returncode == 0, done.stderr
    (found,) = read(log)
    assert found.id == reachable.id(name)
    own = read(reachable.directory(name) / "events.jsonl")[0].events
    entered = {event.pid for event in own if event.actor == "exec"}
    seen = {event.pid for event in found.events if event.actor == "exec"}
    runtime = {event.pid for event in found.events if event.actor == "runtime"}
    assert entered == seen | runtime
    told = [event.name for event in own if event.pid in entered and event.kind == "syscall"]
    inferred = [event.name for event in found.events]
    assert [call for call in told if call not in inferred] == []
    assert "JSON" not in inferred
