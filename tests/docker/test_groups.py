"""docker's groups, and prune: what goes, and what stays."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.columns import Called, Runtime
from conftest import STORE, Program, wait_until
from minirun.docker import groups, network, volume
from rootfs_tools.cli import image


def good(program: Program, *words: str, input: str = "") -> str:
    done = program(*words, input=input)
    assert (done.returncode, done.stderr) == (0, ""), words
    return done.stdout


@pytest.fixture
def alone(command: str, tmp_path: Path) -> Iterator[Program]:
    """A store of its own: a prune of the tests' store would meet others' work."""
    program = Program(command, store=tmp_path / "store")
    archive = tmp_path / "busybox.tar"
    save = [command, "--store", STORE, "save", "-o", str(archive), "busybox"]
    subprocess.run(save, check=True, capture_output=True)
    good(program, "load", "-q", "-i", str(archive), "busybox")
    yield program
    program.clean()


def names(program: Program) -> set[str]:
    return set(good(program, "container", "ls", "-a", "--format", "{{.Names}}").split())


GROUPS = {
    "container": groups.CONTAINER, "image": image.COMMANDS, "network": network.COMMANDS,
    "system": groups.SYSTEM, "volume": volume.COMMANDS,
}  # fmt: skip
OF_GROUP = {
    "container": {"ls", "inspect", "prune"}, "system": {"df", "prune"},
    "image": {"unpack", "gc", "inspect", "diff", "prune"},
    "network": {*network.COMMANDS}, "volume": {*volume.COMMANDS},
}  # fmt: skip
"""Verbs with a help of their own; another's is that of the command that it is."""
SYNONYMS = {
    "container list": "container ls", "container ps": "container ls", "image ls": "images",
    "image list": "images", "image rm": "rmi",
}  # fmt: skip


@pytest.mark.parametrize(
    ("group", "verb"), [(group, verb) for group, verbs in GROUPS.items() for verb in sorted(verbs)]
)
def test_each_verb_has_the_help_of_its_command(called: Called, group: str, verb: str) -> None:
    done = called(group, verb, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    named = f"{group} {verb}" if verb in OF_GROUP[group] else verb
    named = SYNONYMS.get(f"{group} {verb}", named)
    assert done.stdout.startswith(f"Usage: minirun {named} [flags]")


def test_image_import_has_the_arguments_of_import(alone: Program, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    subprocess.run(["tar", "-cf", "tree.tar", "file"], cwd=tmp_path, check=True)
    assert "mine:latest" in good(alone, "image", "import", str(tmp_path / "tree.tar"), "mine")


NAMED = "{{.Repository}}:{{.Tag}}"


@pytest.mark.parametrize("everything", [True, False])
def test_system_prune_of_images(alone: Program, everything: bool) -> None:
    """With -a images go that no container was made of; the layers of others stay."""
    good(alone, "tag", "busybox", "other")
    alone("run", "-d", "--name", "lives", "busybox", "sleep", "300")
    shown = good(alone, "system", "prune", "-f", *(["-a"] if everything else []))
    assert ("untagged: other:latest" in shown) == everything
    left = {"busybox:latest"} if everything else {"busybox:latest", "other:latest"}
    assert set(good(alone, "images", "--format", NAMED).split()) == left
    assert good(alone, "exec", "lives", "echo", "x") == "x\n"
    good(alone, "rm", "-f", "lives")
    asked = alone("system", "prune", "-a", input="n\n").stdout
    assert "- all images that no container was made of\n" in asked
    good(alone, "system", "prune", "-af")
    assert good(alone, "images", "-q") == ""
    assert not [path for path in Path(alone.store, "layers").iterdir() if path.name[0] != "."]


def test_the_group_is_the_command(minirun: Program) -> None:
    minirun("run", "-d", "--name", "c", "busybox", "sh", "-c", "echo hi; sleep 300")
    for verb in ("ls", "list", "ps"):
        assert good(minirun, "container", verb, "-q") == f"{minirun.id('c')[:12]}\n"
        assert good(minirun, "container", verb, "-q", "--no-trunc") == f"{minirun.id('c')}\n"
    wait_until(lambda: minirun("container", "logs", "c").stdout == "hi\n")
    (document,) = json.loads(good(minirun, "container", "inspect", "c"))
    assert document["Name"] == "/c"
    good(minirun, "container", "pause", "c")
    assert "(Paused)" in good(minirun, "container", "ls")
    good(minirun, "container", "unpause", "c")
    assert good(minirun, "container", "exec", "c", "echo", "x") == "x\n"
    assert good(minirun, "system", "info", "-f", "{{.ContainersRunning}}") == "1\n"
    assert good(minirun, "container", "stop", "-t", "0", "c") == "c\n"
    assert good(minirun, "container", "wait", "c") == "137\n"
    assert good(minirun, "container", "rm", "c") == "c\n"


def test_container_prune_removes_what_has_ended(alone: Program, tmp_path: Path) -> None:
    alone("run", "-d", "--name", "lives", "busybox", "sleep", "300")
    alone("run", "--name", "gone", "busybox", "sh", "-c", "head -c 5000 /dev/zero > /f")
    alone("run", "-d", "--name", "paused", "busybox", "sleep", "300")
    alone("pause", "paused")
    waits = Runtime(alone.argv(), tmp_path, f"waits-{os.getpid()}")
    waits.config()
    assert waits("create", "ID").returncode == 0
    for answer in ("", "n\n", "no\n", "\n"):
        done = alone("container", "prune", input=answer)
        assert (done.returncode, done.stderr) == (
            1, "minirun: nothing is removed (answer y, or give --force)\n",
        )  # fmt: skip
        assert done.stdout.startswith("WARNING! This will remove:\n  - all containers that have")
    assert names(alone) == {"lives", "gone", "paused", waits.name}
    gone = alone.id("gone")
    shown = good(alone, "container", "prune", input="y\n")
    assert shown.endswith(f"Deleted Containers:\n{gone}\n\nTotal reclaimed space: 5kB\n")
    assert names(alone) == {"lives", "paused", waits.name}
    assert good(alone, "container", "prune", "-f") == "Total reclaimed space: 0B\n"


def test_container_prune_filters(alone: Program) -> None:
    alone("run", "--name", "a", "busybox", "true")
    alone("run", "--name", "b", "busybox", "true")
    path = alone.directory("a") / "state.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"labels": {"keep": "no"}}))
    assert "Deleted" not in good(alone, "container", "prune", "-f", "--filter", "until=1h")
    assert "Deleted" not in good(alone, "container", "prune", "-f", "--filter", "label=keep=yes")
    gone = alone.id("a")
    shown = good(alone, "container", "prune", "-f", "--filter", "label=keep=no")
    assert shown.startswith(f"Deleted Containers:\n{gone}\n\n")
    assert names(alone) == {"b"}


def test_a_container_of_a_bundle_or_an_engine_stays(alone: Program, tmp_path: Path) -> None:
    """Its engine asks for it, and removes it."""
    runtime = Runtime(alone.argv(), tmp_path, f"c-{os.getpid()}")
    runtime.config()
    runtime.stopped()
    assert good(alone, "container", "prune", "-f") == "Total reclaimed space: 0B\n"
    assert names(alone) == {runtime.name}


def test_system_prune(alone: Program) -> None:
    alone("run", "--name", "gone", "busybox", "true")
    alone("run", "-d", "--name", "lives", "busybox", "sleep", "300")
    good(alone, "tag", "busybox", "other")
    good(alone, "network", "create", "unused")
    store = Path(alone.store)
    (layer,) = [path for path in (store / "layers").iterdir() if path.name[0] != "."]
    unneeded = store / "layers" / ("0" * 64) / "fs"
    unneeded.mkdir(parents=True)
    gone = alone.id("gone")
    shown = good(alone, "system", "prune", input="y\n")
    assert f"Deleted Containers:\n{gone}\n" in shown and "Deleted Networks:\nunused\n" in shown
    assert names(alone) == {"lives"}
    assert layer.exists() and not unneeded.exists()
    assert set(good(alone, "images", "--format", NAMED).split()) == {
        "busybox:latest",
        "other:latest",
    }
    assert good(alone, "exec", "lives", "echo", "x") == "x\n"
