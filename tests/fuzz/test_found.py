"""What the campaigns have found, each by itself: configurations that no list of faults had."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from fuzz.cage import small_root

NAME = f"found-{os.getpid()}"


@pytest.fixture
def config(minirun: Program, tmp_path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(minirun("spec", "busybox", "true").stdout)
    document["root"]["path"] = str(small_root(tmp_path / "rootfs"))
    document["annotations"] = {}
    return document


def run(minirun: Program, tmp_path: Path, config: dict[str, Any]) -> str:
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = minirun("run", "--bundle", str(tmp_path), NAME)
    assert minirun.left() == []
    assert done.stderr.count("\n") == (done.returncode != 0), done.stderr
    return done.stderr


def test_a_cgroup_with_too_long_a_name(minirun: Program, tmp_path: Path, config: Any) -> None:
    """Its directory could neither be made nor looked for, so the container could not go."""
    config["linux"]["cgroupsPath"] = "y" * 5000
    assert "linux.cgroupsPath: /yyy" in run(minirun, tmp_path, config)


@pytest.mark.parametrize("kind", ["maskedPaths", "readonlyPaths"])
def test_one_path_many_times(minirun: Program, tmp_path: Path, config: Any, kind: str) -> None:
    """One mount on the other, four thousand times, took minutes to go."""
    config["linux"][kind] = ["/proc/bus"] * 4000
    began = time.monotonic()
    assert run(minirun, tmp_path, config) == ""
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(("kind", "text"), [("nosuch", "No such device"), ("proc", "Invalid")])
def test_a_mount_that_fails_is_named(
    minirun: Program, tmp_path: Path, config: Any, kind: str, text: str
) -> None:
    config["mounts"][3] |= {"type": kind, "options": ["a=b"]}
    error = run(minirun, tmp_path, config)
    row = config["mounts"][3]
    where = f"mounts[3]: {row['source']} at {row['destination']}: "
    assert error.startswith(f"minirun: config.json: {where}") and text in error


def test_an_error_quotes_no_more_than_a_line(minirun: Program, tmp_path: Path, config: Any) -> None:
    config["linux"]["rootfsPropagation"] = "z" * 200_000
    assert len(run(minirun, tmp_path, config)) < 700


def test_a_set_of_capabilities_that_there_is_not(
    minirun: Program, tmp_path: Path, config: Any
) -> None:
    """What the specification does not know is passed over, whatever it is."""
    config["process"]["capabilities"] |= {"other": 1}
    assert run(minirun, tmp_path, config) == ""


def test_copied_up_a_hole_stays_a_hole(minirun: Program, tmp_path: Path, config: Any) -> None:
    """A tmpfs is the host's memory: 10 GiB of nothing in an image must not fill it."""
    (tmp_path / "rootfs/run/huge").write_bytes(b"begin")
    with open(tmp_path / "rootfs/run/huge", "r+b") as file:
        file.seek((10 << 30) - 3)
        file.write(b"end")
    options = ["tmpcopyup", "size=64m"]
    config["mounts"].append({"destination": "/run", "type": "tmpfs", "options": options})
    script = "busybox stat -c %s /run/huge; head -c 5 /run/huge; tail -c 3 /run/huge"
    config["process"]["args"] = ["/bin/sh", "-c", script]
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = minirun("run", "--bundle", str(tmp_path), NAME)
    assert done.stdout == f"{10 << 30}\nbeginend", done


def test_the_hosts_root_is_no_containers(minirun: Program, tmp_path: Path, config: Any) -> None:
    """Its mount points were made on the host."""
    config["root"]["path"] = str(tmp_path / "../../../../../../..")
    config["mounts"].append({"destination": f"/{NAME}", "type": "tmpfs"})
    error = run(minirun, tmp_path, config)
    assert not Path(f"/{NAME}").exists()
    assert "config.json: root.path: " in error and "is the host's own root" in error


def test_a_path_that_cannot_be_masked_is_named(
    minirun: Program, tmp_path: Path, config: Any
) -> None:
    config["linux"]["maskedPaths"].append("/" + "n" * 256)
    assert f"linux.maskedPaths[{len(config['linux']['maskedPaths']) - 1}]: " in run(
        minirun, tmp_path, config
    )
    config["mounts"], config["linux"]["maskedPaths"] = [], ["/bin/busybox"]
    assert 'exec: "true": permission denied' in run(minirun, tmp_path, config), "by its own null"
    (tmp_path / "dev").mkdir()
    row = {"destination": "/dev", "type": "bind", "source": str(tmp_path / "dev")}
    config["mounts"] = [row | {"options": ["bind"]}]
    assert "linux.maskedPaths: the container's /dev/null: " in run(minirun, tmp_path, config)
