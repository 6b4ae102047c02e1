"""What chooses a source or a privilege is the word of minirun's caller, never an image's.

podman 4 copies the annotations of an image's manifest into config.json. Each image here names a
driver root that it brings itself.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engines.clients import images
from engines.clients.engine import Podman
from security import decoy
from security.conftest import Evil
from toolkit.vendors.tree import amd_host

IMAGE = "test.local/hostile:1"
SCRIPT = (
    "find /dev/dri /dev/kfd 2>/dev/null; grep -c by-path /proc/self/mountinfo;"
    f" cd /dev/dri/by-path/pci-{decoy.ADDRESS}-card && cat secret && echo evil >secret;"
    f" mknod /tmp/n c {decoy.MAJOR} {decoy.MINOR} && cat /tmp/n"
)
"""What of the host the container reaches: nodes, mounts, a file, and a device by its rule."""
REFUSED = "Operation not permitted"


class Hostile:
    """podman, and images that ask for what they must not have."""

    def __init__(self, engine: Podman) -> None:
        self.engine = engine
        self.host = engine.home / "host"
        self.host.mkdir()
        (self.host / "secret").write_text("the host's\n")
        self.layer = images.busybox(decoy.driver("./driver", str(self.host)))
        digest = hashlib.sha256(self.layer).hexdigest()
        self.root = f"{engine.home}/root/overlay/{digest}/diff/driver"
        """Where podman will unpack the image's driver root: the digest tells it."""

    def run(self, annotations: dict[str, str], *flags: str, **config: Any) -> tuple[str, str]:
        """Run an image with these annotations in its manifest; return stdout and stderr."""
        target = images.archive(
            self.engine.home / "hostile.tar", IMAGE, layer=self.layer, annotations=annotations,
            **config,
        )  # fmt: skip
        self.engine("load", "-i", str(target))
        parent = f"--cgroup-parent={self.engine.cell.parent}"
        own = ["--network=none", "--cap-add=mknod", parent]
        if not self.engine("--version").startswith("podman version 4."):  # 5 copies no annotation
            own += [f"--annotation={name}={value}" for name, value in annotations.items()]
        words = ("run", "--name=hostile", *own, *flags, IMAGE)
        done = self.engine.full(*words, "sh", "-c", SCRIPT)
        assert Path(self.root).is_dir(), "the image's driver root lies where it was said"
        assert (self.host / "secret").read_text() == "the host's\n"
        return done.stdout, done.stderr

    def configure(self, *flags: str) -> None:
        """Let podman call its runtime with these flags before the command."""
        self.engine.client += tuple(f"--runtime-flag={flag}" for flag in flags)

    def honest(self) -> Path:
        """A driver root of the host's own, with an AMD GPU behind the decoy's numbers."""
        command = ("tar", "--extract", "--directory", self.engine.home)
        subprocess.run([*command, "--wildcards", "./driver/*"], input=self.layer, check=True)
        return self.engine.home / "driver"

    def events(self) -> list[dict[str, Any]]:
        """The container's log."""
        name = self.engine("inspect", "--format={{.Id}}", "hostile")
        logs = f"/run/minirun/{name}/events.jsonl /run/minirun/.history/*{name}.jsonl"
        text = self.engine.cell.run("sh", "-c", f"cat {logs} 2>/dev/null").stdout
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def engine(command: str) -> Iterator[Podman]:
    found = Podman("minirun", command)
    yield found
    found.close()


@pytest.fixture
def hostile(engine: Podman) -> Iterator[Hostile]:
    found, client = Hostile(engine), engine.client
    found.configure("root=/run/minirun")
    yield found
    engine.client = client
    engine.clean()
    for name in ("host", "driver", "hooks"):
        shutil.rmtree(engine.home / name, ignore_errors=True)


def of(driver: str, root: str) -> dict[str, str]:
    return {
        "io.minirun.gpu-driver": driver, "io.minirun.gpus": "all",
        "io.minirun.driver-root": root, "io.minirun.load-kmods": "true",
    }  # fmt: skip


def nothing(said: tuple[str, str]) -> None:
    """See that the container reached nothing of the host."""
    stdout, stderr = said
    assert stdout.splitlines() == ["0"], "no node, no mount"
    assert stderr.splitlines()[-1].endswith(f"/tmp/n': {REFUSED}"), "no rule of the cgroup"


@pytest.mark.parametrize("driver", ["intel", "amd", "gaudi", "nvidia", "simulated"])
def test_an_images_annotations_give_nothing(hostile: Hostile, driver: str) -> None:
    annotations = of(driver, hostile.root)
    nothing(hostile.run(annotations))  # podman shows a runtime's stderr only where it fails
    passed = hostile.engine("inspect", "--format={{json .Config.Annotations}}", "hostile")
    if "io.minirun" not in passed:
        pytest.skip("this podman gives no runtime an image's annotations, as Ubuntu's 4.9")
    warnings = [event["args"]["text"] for event in hostile.events() if event["name"] == "warning"]
    assert warnings == [f"ignored annotations: {', '.join(sorted(annotations))}"]


@pytest.mark.parametrize("variable", ["AMD_VISIBLE_DEVICES", "HABANA_VISIBLE_DEVICES"])
def test_an_images_environment_is_no_consent(hostile: Hostile, variable: str) -> None:
    hostile.configure(f"driver-root={hostile.honest()}")
    nothing(hostile.run({}, Env=[images.PATH, f"{variable}=all"]))


def test_where_there_is_a_gpu_it_is_said_how_to_get_it(hostile: Hostile) -> None:
    run = hostile.engine.cell.run
    run("sh", "-c", "mount -t tmpfs none /sys/module && mkdir /sys/module/amdgpu", check=True)
    try:
        nothing(hostile.run({}, Env=[images.PATH, "AMD_VISIBLE_DEVICES=all"]))
        (warning,) = (event for event in hostile.events() if event["name"] == "warning")
        assert warning["args"]["text"] == "ignored variable: AMD_VISIBLE_DEVICES"
        assert warning["why"] == "--gpu-driver=amd before the command obeys it"
    finally:
        run("umount", "/sys/module", check=True)


def test_the_engines_configuration_is_consent(hostile: Hostile) -> None:
    hostile.configure(f"driver-root={hostile.honest()}", "gpu-driver=amd")
    stdout, stderr = hostile.run({}, Env=[images.PATH, "AMD_VISIBLE_DEVICES=all"])
    assert stdout.splitlines() == ["/dev/dri", "/dev/dri/renderD128", "/dev/kfd", "0"]
    assert stderr.splitlines()[-1].endswith("/tmp/n': No such device or address")


@pytest.mark.parametrize("driver", ["amd", "intel"])
def test_even_a_flag_cannot_name_the_layer_of_an_image(hostile: Hostile, driver: str) -> None:
    """Wherever podman's store is: it is known by its lock."""
    hostile.configure(f"driver-root={hostile.root}", f"gpu-driver={driver}", "gpus=all")
    stdout, stderr = hostile.run({})
    assert stdout == "" and stderr.count("\n") == 1
    assert f"driver root {hostile.root}: {hostile.engine.home}/root holds containers" in stderr


def test_a_hook_of_the_engine_is_not_steered_by_an_image(hostile: Hostile) -> None:
    """The hook is root's, the simulated driver its word; the image names another one."""
    path = hostile.engine.home / "nvidia-container-runtime-hook"
    path.symlink_to(hostile.engine.path)
    args = [path.name, "prestart"]
    hook = {"path": str(path), "args": args, "env": ["MINIRUN_SIM=count=2"]}
    row = {"version": "1.0.0", "hook": hook, "when": {"always": True}, "stages": ["prestart"]}
    hooks = hostile.engine.home / "hooks"
    hooks.mkdir()
    (hooks / "gpu.json").write_text(json.dumps(row))
    hostile.engine.client += ("--hooks-dir", str(hooks))
    env = [images.PATH, "NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_DRIVER_CAPABILITIES=utility"]
    env += ["MINIRUN_SIM=count=4", "MINIRUN_STORE=/driver"]
    hostile.run(of("nvidia", hostile.root), Env=env)
    events = hostile.events()
    argv = next(e["args"]["argv"] for e in events if e["name"] == "nvidia-container-cli")
    assert not [word for word in argv if word.startswith("--root")]
    sources = [e["args"]["source"] for e in events if e["name"] == "open_tree" and e["stage"] == 5]
    assert any("/drivers/simulated-" in path for path in sources)
    assert not any(hostile.root in path or path.startswith("/driver/") for path in sources)


ANNOTATIONS = {
    "gpu-driver": "amd", "gpus": "all", "driver-root": "ROOT", "load-kmods": "true",
    "gpu-mode": "hook", "gpu-exclusive": "true", "layers": "ROOT:/", "volatile": "true",
    "anything": "x",
}  # fmt: skip


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_each_annotation_of_a_bundle(evil: Evil, name: str) -> None:
    value = ANNOTATIONS[name].replace("ROOT", str(evil.host))
    evil.config["annotations"] = {f"io.minirun.{name}": value, "io.minirun.log": "stages"}
    evil.config["process"]["env"].append("AMD_VISIBLE_DEVICES=all")
    amd_host(evil.host, 1)
    evil.before = evil.look()
    done = evil.run("sh", "-c", "find /dev/dri 2>/dev/null; grep -c overlay /proc/self/mountinfo")
    assert done.stdout == "0\n"
    assert done.stderr.count("\n") == 1
    text = f"minirun: warning: config.json: ignored annotations: io.minirun.{name} (an image may"
    assert done.stderr.startswith(text)


def test_many_and_odd_annotations_are_one_line(evil: Evil) -> None:
    names = [f"io.minirun.\x1b[2J{number}" for number in range(20_000)]
    evil.config["annotations"] = dict.fromkeys(names, "x")
    done = evil.run("true")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert "\x1b" not in done.stderr and "and 19995 more" in done.stderr
    assert len(done.stderr) < 500
    told = evil.minirun("explain", done.stderr.strip()).stdout
    assert "--runtime-flag gpu-driver=amd" in told
