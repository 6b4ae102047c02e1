"""Wherever a configure fails, container and host are as they were before.

First step by step in a half-started container; then whole creates, whose images let one thing fail
each. The real nvidia-container-cli leaves 26 mounts, and files in the image.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from gpu import images
from gpu.sandbox import Sandbox, fingerprint
from minirun.core.kernel import mountinfo
from minirun.core.kernel.architecture import NATIVE
from minirun.core.rootfs.inroot import Root
from minirun.gpu import apply, ldconfig
from minirun.gpu.drivers import inventory
from minirun.gpu.nvidia.cli import cli_args
from minirun.gpu.nvidia.cli import planner as nvidia
from minirun.gpu.target import Target

LIBRARIES = f"usr/lib/{NATIVE.triplet}"
WORDS = ("--ldconfig=@/sbin/ldconfig", "--device=all", "--compute", "--utility", "--graphics")


class Broken(Exception):
    """What a step of the tests fails with."""


def mounted(root: str) -> list[mountinfo.Mount]:
    return [mount for mount in mountinfo.read() if mount.mount_point.startswith(root)]


def seen(box: Sandbox) -> tuple[str, list[mountinfo.Mount], list[str]]:
    """The container's files (what is mounted on them too), mounts, and nodes."""
    return fingerprint(Path(f"{box.root}/usr")), mounted(box.root), os.listdir(f"{box.root}/dev")


def fail_everywhere(box: Sandbox, store: str) -> Callable[[Root], dict[str, Any]]:
    """Configure again and again, each time with another step that fails; tell what was left."""

    def work(root: Root) -> dict[str, Any]:
        request = cli_args.parse(["configure", *WORDS, box.root]).request
        plan = nvidia.plan(
            inventory("simulated", store), request, nvidia.find_library_places(root, request)
        )
        steps = len(plan.steps) + 1  # the last one is ldconfig
        before, left = seen(box), []
        for number in range(steps):
            told = iter(range(steps))

            def tell(_: object, told: Any = told, number: int = number) -> None:
                if next(told) == number:
                    raise Broken

            fd = ldconfig.open_host(request.ldconfig)
            try:
                apply.apply(plan, Target(root, box.root, fd), tell)
            except Broken:
                left += [number] if seen(box) != before else []
            finally:
                os.close(fd)
        return {"steps": steps, "left": left}

    return work


def test_every_step_can_fail(debian: Sandbox, store: str) -> None:
    layer = Path(debian.root)
    (layer / LIBRARIES / "libcuda.so.1").symlink_to("an-old-one")
    (layer / "etc/ld.so.cache").write_bytes(b"the image's own")
    before = fingerprint(layer)
    outcome = debian.inside(fail_everywhere(debian, store))
    assert outcome["error"] == ""
    assert outcome["result"]["left"] == []
    assert outcome["result"]["steps"] >= 50
    assert fingerprint(layer) == before


def folder(path: Path) -> None:
    path.mkdir(parents=True)


def file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")


PLACES = {
    "a binary": ("usr/bin/nvidia-smi", folder),
    "a library": (f"{LIBRARIES}/libnvidia-ml.so.550.163.01", folder),
    "the last library": (f"{LIBRARIES}/libnvidia-nvvm.so.550.163.01", folder),
    "firmware": ("lib/firmware", file),
    "a socket": ("run", file),
    "ldconfig": ("etc/ld.so.cache~", folder),
}


def spoiled(layer: Path, place: str) -> Path:
    """Lay an image out as Debian's, with something in the way."""
    (layer / "etc/debian_version").write_text("12.0\n")
    (layer / LIBRARIES).mkdir(parents=True)
    path, make = PLACES[place]
    make(layer / path)
    return layer


def host(own: Path) -> tuple[list[str], list[str], set[str]]:
    """Mounts, nodes of a driver, and cgroups of this process's containers, of the host.

    Mounts in other tests' folders, which are not `own`, come and go.
    """
    others = f"{own.parents[2]}/"
    points = [
        point for mount in mountinfo.read()
        if not (point := mount.mount_point).startswith(others) or point.startswith(str(own))
    ]  # fmt: skip
    nodes = sorted(name for name in os.listdir("/dev") if name.startswith("nvidia"))
    cgroups = Path("/sys/fs/cgroup").glob(f"*/minirun/undone-{os.getpid()}*")
    return points, nodes, {str(path) for path in cgroups}


@pytest.mark.parametrize("place", PLACES)
def test_a_create_that_fails(place: str, minirun: Program, tmp_path: Path) -> None:
    """A bundle's root filesystem outlives its container: what was put in has to go."""
    store = tmp_path / "store"
    layer = spoiled(images.make(store, "image"), place)
    minirun.store = str(store)
    flags = ("spec", "--gpus", "all", "--gpu-driver=simulated", "image")
    config = json.loads(minirun(*flags, "true").stdout)
    config["root"] = {"path": str(layer)}
    config["process"]["env"].append("NVIDIA_DRIVER_CAPABILITIES=all")
    (tmp_path / "config.json").write_text(json.dumps(config))
    minirun("gpu", "list", "--gpu-driver=simulated")
    before = fingerprint(layer), host(tmp_path)
    name = f"undone-{os.getpid()}"
    done = minirun("--gpu-driver=simulated", "create", "--bundle", str(tmp_path), name)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "nvidia-container-runtime-hook: " in done.stderr
    assert (fingerprint(layer), host(tmp_path)) == before
    assert not list(minirun.root.glob("[!.]*"))


@pytest.mark.parametrize("mode", ["legacy", "cdi"])
@pytest.mark.parametrize("place", PLACES)
def test_a_run_that_fails(place: str, mode: str, minirun: Program, tmp_path: Path) -> None:
    """An image's container has a layer of its own, which goes with it."""
    store = tmp_path / "store"
    layer = spoiled(images.make(store, "image"), place)
    minirun.store = str(store)
    minirun("gpu", "list", "--gpu-driver=simulated")
    before = fingerprint(layer), host(tmp_path)
    flags = ("--gpus", "all", "--gpu-driver=simulated", "--gpu-mode", mode)
    flags = (*flags, "-e", "NVIDIA_DRIVER_CAPABILITIES=all", "--name", f"undone-{os.getpid()}")
    done = minirun("run", "--rm", *flags, "image", "true")
    assert (done.returncode, done.stderr.count("\n")) == (125, 1), done.stderr
    assert (fingerprint(layer), host(tmp_path)) == before
    assert not list(minirun.root.glob("[!.]*"))
