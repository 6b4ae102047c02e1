"""A container without a mount namespace of its own, on a machine whose mounts are shared.

The machine is a mount namespace of the test's, so that nothing is mounted on the real one.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import wait_until
from minirun.core.kernel import mountinfo
from required import installed
from spec.conftest import Bundle, Done


class Machine:
    """A mount namespace in which every mount is shared: what systemd makes of a machine.

    They are private first, so that what other tests mount does not come in.
    """

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        script = "mount --make-rshared / && exec sleep 100"
        words = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script)
        self.process = subprocess.Popen(words)
        self.pid = self.process.pid
        own = os.readlink("/proc/self/ns/mnt")
        wait_until(lambda: os.readlink(f"/proc/{self.pid}/ns/mnt") != own)
        wait_until(lambda: all(mount.propagation for mount in mountinfo.read(self.pid)))

    def run(self, *argv: str | Path) -> Done:
        """Run a program there to its end."""
        into = ("nsenter", f"--target={self.pid}", "--mount", *map(str, argv))
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True}
        return subprocess.run(into, **options, text=True, check=False, timeout=60)

    def __call__(self, *words: str) -> Done:
        """Run minirun there."""
        return self.run(*self.bundle.program.argv(*words))

    def mounts(self) -> list[tuple[object, ...]]:
        """All mounts, with how they spread; without ids, which differ after a mount."""
        rows = mountinfo.read(self.pid)
        return [(m.mount_point, m.root, m.options, m.propagation, m.fs_type) for m in rows]

    def write(self, command: str, **changes: Any) -> None:
        """Write config.json: no mount namespace, and no path to be hidden."""
        rows = [row for row in self.bundle.config["linux"]["namespaces"] if row["type"] != "mount"]
        usual = {"linux__maskedPaths": [], "linux__readonlyPaths": []}
        self.bundle.write(command, linux__namespaces=rows, **(usual | changes))

    def create(self, command: str, **changes: Any) -> str:
        """Create a container; return its id."""
        self.write(command, **changes)
        argv = self.bundle.program.argv("create", "-b", str(self.bundle.path), self.bundle.name)
        shell = ("sh", "-c", 'exec "$@" >/dev/null 2>&1', "sh")  # else it has our pipes
        assert self.run(*shell, *argv).returncode == 0
        return self.bundle.name

    def says(self, command: str, **changes: Any) -> str:
        self.write(command, **changes)
        done = self("run", "-b", str(self.bundle.path), self.bundle.name)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.strip()


@pytest.fixture
def machine(bundle: Bundle) -> Iterator[Machine]:
    made = Machine(bundle)
    before = made.mounts()
    yield made
    made("delete", "--force", bundle.name)
    assert made.mounts() == before
    made.process.kill()
    made.process.wait()


def test_it_runs_and_leaves_nothing(machine: Machine, bundle: Bundle) -> None:
    script = "readlink /proc/self/ns/mnt; ls /; touch /new; stat -c %t:%T /dev/null"
    mine, *rest = machine.says(script).split()
    assert mine == os.readlink(f"/proc/{machine.pid}/ns/mnt")
    assert "bin" in rest and "boot" not in rest
    assert rest[-1] == "1:3"
    assert (bundle.rootfs / "new").exists()


def test_while_it_lives_the_host_sees_its_mounts(machine: Machine, bundle: Bundle) -> None:
    before = machine.mounts()
    name = machine.create("sleep 100")
    assert machine("start", name).returncode == 0
    new = [row for row in machine.mounts() if row not in before]
    assert str(bundle.rootfs / "proc") in [row[0] for row in new]
    assert {row[3] for row in new} == {()}, "private: no other mount namespace sees them"
    assert machine.mounts()[: len(before)] == before
    assert machine("delete", "-f", name).returncode == 0
    assert machine.mounts() == before


def test_an_exec_is_in_its_root(machine: Machine, bundle: Bundle) -> None:
    name = machine.create("sleep 100")
    script = "ls /; pwd; touch /of-exec"
    early = machine("exec", name, "sh", "-c", script)
    machine("start", name)
    later = machine("exec", name, "sh", "-c", script)
    for done in (early, later):
        assert (done.returncode, done.stderr) == (0, "")
        assert "boot" not in done.stdout.split() and done.stdout.endswith("\n/\n")
    assert (bundle.rootfs / "of-exec").exists()


def test_what_was_killed_is_unmounted_too(machine: Machine, bundle: Bundle) -> None:
    before = machine.mounts()
    name = machine.create("sleep 100")
    os.kill(json.loads(machine("state", name).stdout)["pid"], 9)
    wait_until(lambda: json.loads(machine("state", name).stdout)["status"] == "stopped")
    assert machine.mounts() != before
    assert machine("delete", name).returncode == 0
    assert machine.mounts() == before


def test_a_create_that_fails_leaves_no_mount(machine: Machine, bundle: Bundle) -> None:
    before = machine.mounts()
    hooks = {"createRuntime": [{"path": "/bin/false"}]}
    machine.write("true", hooks=hooks)
    done = machine("run", "-b", str(bundle.path), bundle.name)
    assert done.returncode == 1 and "error running createRuntime hook #0: " in done.stderr
    assert machine.mounts() == before
    bundle.rootfs.rename(bundle.path / "other")
    bundle.rootfs.symlink_to("other")
    machine.write("true")
    assert "not a directory" in machine("run", "-b", str(bundle.path), bundle.name).stderr
    assert machine.mounts() == before


def test_a_hook_runs_once(machine: Machine, bundle: Bundle) -> None:
    """runc ran them twice once: pull request 3996."""
    script = f"echo ran >>{bundle.path}/ran"
    hook = {"path": "/bin/sh", "args": ["sh", "-c", script]}
    machine.says("true", hooks={"createRuntime": [hook], "createContainer": [hook]})
    assert (bundle.path / "ran").read_text() == "ran\nran\n"


@pytest.mark.parametrize("word", ["shared", "private", "slave", "unbindable"])
def test_the_propagation_of_the_hosts_mounts_stays(machine: Machine, word: str) -> None:
    before = machine.mounts()
    name = machine.create("sleep 100", linux__rootfsPropagation=word)
    assert machine.mounts()[: len(before)] == before
    machine("delete", "-f", name)


def test_no_pivot_unmounts_nothing_of_the_host(machine: Machine, bundle: Bundle) -> None:
    machine.write("true")
    flags = ("run", "--no-pivot", "-b", str(bundle.path), bundle.name)
    assert machine(*flags).returncode == 0


def test_a_read_only_root(machine: Machine) -> None:
    name = machine.create("sleep 100", root__readonly=True)
    assert "Read-only file system" in machine("exec", name, "touch", "/x").stderr


def test_what_lies_over_it_stays(machine: Machine, bundle: Bundle) -> None:
    """delete unmounts nothing but its own; it can be called again."""
    above = bundle.path / "above"
    above.mkdir()
    bundle.rootfs.rename(above / "rootfs")
    name = machine.create("sleep 100", root={"path": str(above / "rootfs")})
    machine.run("mount", "-t", "tmpfs", "none", above)
    for source in ("", "strangers"):
        if source:
            machine.run("mkdir", above / "rootfs")
            machine.run("mount", "-t", "tmpfs", source, above / "rootfs")
        done = machine("delete", "-f", name)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert "rootfs cannot be unmounted: another mount lies over it (umount that" in done.stderr
    assert "strangers" in [mount.source for mount in mountinfo.read(machine.pid)]
    for place in (above / "rootfs", above):
        machine.run("umount", place)
    assert machine("delete", "-f", name).returncode == 0


def test_a_bundle_that_was_renamed(machine: Machine, bundle: Bundle) -> None:
    name = machine.create("sleep 100")
    bundle.rootfs.rename(bundle.path / "elsewhere")
    assert machine("delete", "-f", name).returncode == 0


def test_gpus(machine: Machine) -> None:
    hook = {"path": "/usr/bin/nvidia-container-runtime-hook", "args": ["hook", "prestart"]}
    env = [*machine.bundle.config["process"]["env"], "NVIDIA_VISIBLE_DEVICES=0"]
    machine.write("nvidia-smi -L", hooks={"prestart": [hook]}, process__env=env)
    flags = ("--gpu-driver=simulated", "-b", str(machine.bundle.path), machine.bundle.name)
    done = machine("run", *flags)
    assert done.stdout.startswith("GPU 0: ")
    assert "SIMULATED" in done.stdout


@pytest.mark.parametrize("name", ["maskedPaths", "readonlyPaths"])
def test_no_path_can_be_hidden(machine: Machine, bundle: Bundle, name: str) -> None:
    """As with runc: "unable to restrict sys entries without a private MNT namespace"."""
    machine.write("true", **{f"linux__{name}": ["/proc/sys"]})
    done = machine("run", "-b", str(bundle.path), bundle.name)
    assert done.returncode == 1
    assert f"config.json: linux.{name}: " in done.stderr
    assert "without a private mount namespace" in done.stderr


def test_no_user_namespace(bundle: Bundle) -> None:
    rows = [row for row in bundle.config["linux"]["namespaces"] if row["type"] != "mount"]
    maps = [{"containerID": 0, "hostID": 100000, "size": 1000}]
    said = bundle.refuses(
        linux__namespaces=[*rows, {"type": "user"}], linux__uidMappings=maps,
        linux__gidMappings=maps, linux__maskedPaths=[], linux__readonlyPaths=[],
    )  # fmt: skip
    assert "a user namespace may not mount in the host's mount namespace" in said


def test_beside_runc(machine: Machine, bundle: Bundle) -> None:
    """The same words and the same status; but runc leaves its mounts behind."""
    runc, script = installed("runc"), "ls /; cat /proc/self/mounts | cut -d' ' -f2,3; exit 7"
    copy = bundle.path / "runc"
    shutil.copytree(bundle.rootfs, copy / "rootfs", symlinks=True)
    machine.write(script)
    shutil.copy(bundle.path / "config.json", copy)
    ours = machine("run", "-b", str(bundle.path), bundle.name)
    state = copy / "state"
    into = ("unshare", "--mount", "--propagation", "private")
    theirs = machine.run(*into, runc, "--root", state, "run", "-b", copy, bundle.name)
    assert (ours.returncode, ours.stderr) == (theirs.returncode, theirs.stderr) == (7, "")
    assert sorted(ours.stdout.split()) == sorted(theirs.stdout.split())
