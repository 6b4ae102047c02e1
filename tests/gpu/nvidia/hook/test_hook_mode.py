"""`--gpu-mode hook`: the installed nvidia-container-runtime-hook does stages 4 and 5."""

import json
from pathlib import Path

import pytest

from conftest import Program

GPUS = ("--gpus", "0,1", "--gpu-driver=simulated", "--gpu-mode=hook")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder for PATH with a hook in it that writes down how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    hook = folder / "nvidia-container-runtime-hook"
    hook.write_text(f'#!/bin/sh\necho "$0 $*" > {tmp_path}/called\nenv > {tmp_path}/env\n'
                    f"cat > {tmp_path}/state\n")  # fmt: skip
    hook.chmod(0o755)
    return folder


def test_the_installed_hook_is_executed(minirun: Program, tmp_path: Path, installed: Path) -> None:
    script = "ls /dev | grep nvidia; env"
    done = minirun("run", "--rm", *GPUS, "busybox", "sh", "-c", script,
                   env={"PATH": f"{installed}:/usr/bin:/bin"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    words = (tmp_path / "called").read_text().split()
    assert words == [str(installed / "nvidia-container-runtime-hook"), "prestart"]
    state = json.loads((tmp_path / "state").read_text())
    assert state["status"] == "creating" and state["pid"] > 0
    env = (tmp_path / "env").read_text()
    assert "MINIRUN_SIM=count=4" in env and "NVIDIA_VISIBLE_DEVICES" not in env
    assert "NVIDIA_VISIBLE_DEVICES=0,1" in done.stdout
    assert "nvidia" not in done.stdout, "this hook puts nothing in"


def test_minirun_under_the_hooks_name_does_the_work(minirun_both: Program, tmp_path: Path) -> None:
    """Two processes that know of each other what the interface says: JSON, and a pid.

    On a host with both versions of cgroups the hook has to find out which one the container is in.
    """
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvidia-container-runtime-hook").symlink_to(minirun_both.path)
    script = "nvidia-smi -L; cat /dev/nvidia1; mknod /tmp/n c 195 2 && cat /tmp/n"
    done = minirun_both("run", "--rm", *GPUS, "busybox", "sh", "-c", script,
                        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"})  # fmt: skip
    names = done.stdout.splitlines()
    assert len(names) == 2 and all("SIMULATED" in line for line in names)
    lines = [line.rpartition(": ")[2] for line in done.stderr.splitlines()]
    assert lines == ["No such device or address", "Operation not permitted"]


def test_the_log_shows_the_hook_and_no_stage_of_its_own(minirun: Program, installed: Path) -> None:
    env = {"PATH": f"{installed}:/usr/bin:/bin"}
    minirun("run", "--rm", *GPUS, "busybox", "true", env=env)
    events = minirun.events()
    ended = [event for event in events if event["name"] == "hook ended"]
    assert [event["args"]["status"] for event in ended] == [0]
    assert not {event["stage"] for event in events} & {4, 5}


def test_a_hook_that_fails_is_told_and_nothing_stays(minirun: Program, installed: Path) -> None:
    (installed / "nvidia-container-runtime-hook").write_text(
        "#!/bin/sh\necho no luck >&2; exit 3\n"
    )
    env = {"PATH": f"{installed}:/usr/bin:/bin"}
    done = minirun("run", "--rm", *GPUS, "busybox", "true", env=env)
    assert done.returncode == 125
    assert "failed with exit status 3: no luck" in done.stderr
    assert not list(minirun.root.glob("[!.]*"))


def test_without_a_hook_there_is_one_line(minirun: Program) -> None:
    if Path("/usr/bin/nvidia-container-runtime-hook").exists():
        pytest.skip("NVIDIA's container toolkit is installed here")
    done = minirun("run", "--rm", *GPUS, "busybox", "true", env={"PATH": "/nosuch"})
    assert (done.returncode, done.stderr.count("\n")) == (125, 1)
    assert "no nvidia-container-runtime-hook in PATH or /usr/bin" in done.stderr


def test_without_gpus_the_mode_asks_for_nothing(minirun: Program) -> None:
    done = minirun("run", "--rm", "--gpu-mode=hook", "busybox", "true", env={"PATH": "/nosuch"})
    assert (done.returncode, done.stderr) == (0, "")
