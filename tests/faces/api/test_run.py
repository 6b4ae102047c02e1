"""minirun.run: real containers, checked against the kernel."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import minirun as package
from conftest import Program, skip, wait_until
from minirun.core.errors import MinirunError, StateError, UsageError
from minirun.faces.api import Container, Namespaces, RunError, Stepper, can_run, replay, run, step
from minirun.faces.api.child import words_of
from minirun.faces.api.stepping.played_run import PlayedRun

GPUS = {"gpus": "0,1", "gpu_driver": "simulated"}


def test_a_command_to_its_end(capfd: pytest.CaptureFixture[str]) -> None:
    with run("busybox", "sh", "-c", "echo out; echo err >&2; exit 3", env=["A=1"]) as container:
        assert container.exit_status == 3
        assert container.status == "stopped"
        assert sorted(container.output.split()) == ["err", "out"]
        timeline = container.timeline
        assert timeline.recording.complete
        assert timeline.id == container.id
        assert "sh -c echo out" in str(container)
    shown = capfd.readouterr()
    assert "1 runtime  clone()" in shown.out
    assert shown.out.index("7 init") < shown.out.index("\nout\n")
    assert "err\n" in shown.err
    assert container.status == "removed"
    assert container.exit_status == 3
    assert sorted(container.output.split()) == ["err", "out"]
    assert len(container.timeline) >= len(timeline), "the log is kept"


def test_nothing_is_shown_where_nobody_wants_it(capfd: pytest.CaptureFixture[str]) -> None:
    with run("busybox", "echo", "hidden", stream=False) as container:
        assert container.output == "hidden\n"
    assert capfd.readouterr() == ("", "")


def test_flags_become_the_command_lines(minirun: Program) -> None:
    flags = {"env": ["A=1", "B=2"], "read_only": True, "hostname": "lesson", "user": None}
    with run("busybox", "sh", "-c", "echo $A$B; hostname; touch /x", stream=False, **flags) as done:
        assert done.output == "12\nlesson\ntouch: /x: Read-only file system\n"
        assert done.exit_status == 1


@pytest.mark.parametrize(
    "env",
    [
        {"A": "1", "B": 2, "OWN": None}, ["A=1", "B=2", "OWN"], ("A=1", "B=2", "OWN"),
        {"A=1", "B=2", "OWN"}, {"A": "1", "B": 2, "OWN": None}.items().mapping,
    ],
)  # fmt: skip
def test_variables_in_each_form_that_a_python_program_has(
    env: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docker's SDK for Python takes a dictionary, and a list, and None for a value."""
    monkeypatch.setenv("OWN", "3")
    with run("busybox", "sh", "-c", "echo $A$B$OWN", stream=False, env=env) as done:
        assert done.output == "123\n"


@pytest.mark.parametrize(
    "flags",
    [{"env": b"A=1"}, {"env": [b"A=1"]}, {"env": {"A": ["1"]}}, {"env": object()},
     {"memory": object()}, {"annotation": [("a", "b")]}],
)  # fmt: skip
def test_a_value_that_no_flag_has_is_refused(minirun: Program, flags: dict[str, object]) -> None:
    with pytest.raises(RunError, match="is no value of a flag"):
        run("busybox", "true", stream=False, **flags)
    assert minirun.left() == []


def test_a_dictionary_is_what_any_flag_of_names_and_values_takes() -> None:
    with run("busybox", "true", stream=False, annotation={"org.a": "1", "org.b": "2"}) as done:
        given = done.inspect()["annotations"]
        assert (given["org.a"], given["org.b"]) == ("1", "2")


@pytest.mark.parametrize("none", [None, [], (), range(0)], ids=repr)
def test_no_gpus_are_no_gpus(none: object) -> None:
    with run("busybox", "ls", "/dev", gpus=none, gpu_driver="simulated", stream=False) as done:
        assert "nvidia" not in done.output
        assert done.exit_status == 0


def test_exec_says_what_minirun_could_not_do(minirun: Program) -> None:
    """A command's own status and words are its result, whatever they look like."""
    with run("busybox", "sleep", "60", detach=True, stream=False) as container:
        words = "echo 'minirun: container c is not running' >&2; exit 1"
        assert container.exec("sh", "-c", words) == (1, "minirun: container c is not running\n")
        with pytest.raises(MinirunError, match='exec: "nosuch": executable file not found'):
            container.exec("nosuch")
        minirun("pause", container.id)
        with pytest.raises(MinirunError, match="cannot exec in a paused container"):
            container.exec("true")
        minirun("resume", container.id)
        minirun("kill", container.id, "KILL")
        container.wait()
        with pytest.raises(MinirunError, match=f"^container {container.name} is not running$"):
            container.exec("true")
    with pytest.raises(MinirunError, match="does not exist"):
        container.exec("true")
    assert container.wait() == 137
    with pytest.raises(StateError, match="does not exist"):
        Container("nosuch").wait()
    with pytest.raises(StateError, match="does not exist"):
        Container("nosuch").stop()


def test_a_living_container_beside_the_kernels_facts(minirun: Program) -> None:
    with run("busybox", "sleep", "60", detach=True, stream=False, **GPUS) as container:
        pid = container.pid
        assert Path(f"/proc/{pid}/cmdline").read_text() == "sleep\0" + "60\0"
        for kind, inode in container.namespaces.items():
            assert os.stat(f"/proc/{pid}/ns/{kind}").st_ino == inode
        host = Namespaces.host()
        assert host["mnt"] == os.stat("/proc/self/ns/mnt").st_ino
        assert "mnt" in container.namespaces.own(host)
        assert "user" in container.namespaces.shared(host)
        numbers = container.devices.numbers
        assert {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"} < numbers.keys()
        for path, (major, minor) in numbers.items():
            device = os.stat(f"/proc/{pid}/root{path}").st_rdev
            assert (os.major(device), os.minor(device)) == (major, minor)
        rules = minirun("inspect", "--devices", container.id).stdout
        for rule in container.devices.rules.added:
            assert rule.partition(" #")[0] in rules
        assert container.exec("sh", "-c", "echo hello; exit 4") == (4, "hello\n")
        assert container.inspect()["id"] == container.id
        with pytest.raises(MinirunError, match=r"^false: $"):
            container.exec("false", check=True)
        with pytest.raises(TimeoutError):
            container.wait(0.05)
    assert container.status == "removed"
    assert not os.path.exists(f"/proc/{pid}")


def test_snapshots_outlive_the_container() -> None:
    with run("busybox", "sleep", "60", detach=True, stream=False, snapshots=True, **GPUS) as gone:
        pid, alive, devices = gone.pid, gone.namespaces, gone.devices
        assert gone.timeline.namespaces == alive
        assert alive["net"] == os.stat(f"/proc/{pid}/ns/net").st_ino
        assert gone.timeline.host == Namespaces.host()
        assert devices.source == "snapshots"
    assert gone.namespaces == alive
    assert gone.devices.nodes == devices.nodes
    assert gone.devices.numbers["/dev/nvidia1"] == (195, 1)
    assert "c 195:1 rw # /dev/nvidia1" in gone.devices.rules.added
    assert "/usr/bin/nvidia-smi" in gone.devices.files.added
    assert gone.devices.simulated


def test_without_snapshots_an_ended_container_says_what_is_missing() -> None:
    with run("busybox", "true", stream=False) as container:
        with pytest.raises(StateError, match="recorded without snapshots"):
            _ = container.namespaces
        assert container.devices.nodes.added == ()
    with pytest.raises(StateError, match="no snapshots of stage 5"):
        _ = container.devices


def test_stop_asks_first_and_kills_then() -> None:
    polite = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.02; done"
    with run("busybox", "sh", "-c", polite, detach=True, stream=False) as container:
        wait_until(lambda: container.output == "ready\n")
        assert container.stop() == 7
        assert container.status == "stopped"
    with run("busybox", "sleep", "60", detach=True, stream=False) as deaf:  # pid 1 ignores SIGTERM
        assert deaf.stop(0.1) == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("words", "flags", "status", "text"),
    [
        (("nosuchimage",), {}, 125, "nosuchimage"),
        (("busybox", "nosuch"), {}, 127, 'exec: "nosuch": executable file not found'),
        (("busybox", "nosuch"), {"detach": True}, 127, "executable file not found"),
        (("busybox",), {"nosuch": 1}, 125, "unknown flag: --nosuch"),
        (("busybox", "true"), {"gpus": "9", "gpu_driver": "simulated"}, 125, "unknown device"),
    ],
)
def test_what_cannot_be_run(
    words: tuple[str, ...], flags: dict[str, object], status: int, text: str
) -> None:
    with pytest.raises(RunError, match=text) as caught:
        run(*words, stream=False, **flags)
    assert caught.value.status == status
    assert caught.value.container.status == "removed"
    if words[-1] == "nosuch":
        assert caught.value.container.timeline.stages[-1].number == 7


def test_a_failure_is_shown_though_its_log_is_history(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunError) as caught:
        run("busybox", "true", gpus="9", gpu_driver="simulated")
    assert "failed:" in capfd.readouterr().out
    assert caught.value.container.timeline.stages[-1].error


def test_a_name_that_is_taken_stays_its_owners() -> None:
    name = f"taken-{os.getpid()}"
    with run("busybox", "true", name=name, stream=False) as owner:
        with pytest.raises(RunError, match="already in use"):
            run("busybox", "true", name=name, stream=False)
        assert owner.status == "stopped"


@pytest.mark.parametrize("start", [run, step])
def test_rm_is_refused(start: Callable[..., object]) -> None:
    with pytest.raises(RunError, match="take the container away"):
        start("busybox", "true", rm=True)


def test_an_interrupt_ends_and_removes_the_container(minirun: Program) -> None:
    name = f"interrupted-{os.getpid()}"
    seen: list[int] = []

    def interrupt() -> None:
        container = Container(name)
        wait_until(lambda: container.status == "running")
        seen.append(container.pid)
        os.kill(os.getpid(), signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run("busybox", "sh", "-c", "yes", name=name, stream=False)
    helper.join()
    assert time.monotonic() - started < 20
    assert Container(name).status == "removed"
    assert not os.path.exists(f"/proc/{seen[0]}")
    assert minirun.left() == []


def test_the_caller_is_not_copied(tmp_path: Path, minirun: Program) -> None:
    """Its children share its memory until they execute: vfork, and never fork."""
    log = tmp_path / "strace"
    program = "import minirun; minirun.run('busybox', 'true', stream=False).remove()"
    argv = ["strace", "-o", str(log), "-e", "trace=%process,setns,unshare"]
    done = subprocess.run([*argv, sys.executable, "-c", program], timeout=60, check=False)
    assert done.returncode == 0
    calls = [line for line in log.read_text().splitlines() if line.startswith(("clone", "vfork"))]
    assert calls
    assert all(line.startswith("vfork") or "CLONE_VFORK" in line for line in calls)
    assert not [c for c in log.read_text().splitlines() if c.startswith(("fork", "setns", "unsh"))]


def test_who_may_not_is_told_where_to_look() -> None:
    assert can_run()
    argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c"]
    program = "import minirun; print(bool(minirun.can_run())); minirun.run('busybox')"
    source = Path(package.__file__).parents[1]
    if not os.stat(source).st_mode & 0o001:
        skip(f"user nobody cannot read {source}")
    done = subprocess.run([*argv, program], capture_output=True, text=True, check=False)
    assert done.stdout == "False\n"
    assert "containers need root (CAP_SYS_ADMIN), and this is user 65534" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    "given",
    [("sh", "-c", "echo 'a  b'"), (["sh", "-c", "echo 'a  b'"],), ("sh -c \"echo 'a  b'\"",)],
)
def test_a_command_as_words_as_a_list_and_as_one_string(given: tuple[object, ...]) -> None:
    with run("busybox", *given, stream=False) as container:  # type: ignore[arg-type]
        assert container.output == "a  b\n"


def test_exec_takes_one_string_too() -> None:
    with run("busybox", "sleep 60", detach=True, stream=False) as container:
        assert container.exec("cat /proc/1/cmdline").output == "sleep\x0060\x00"
        assert container.exec(["echo", "a b"]).output == "a b\n"


@pytest.mark.parametrize(
    ("gpus", "nodes"),
    [([0, 1], ["nvidia0", "nvidia1"]), ((1,), ["nvidia1"]), (["0"], ["nvidia0"]), ([], [])],
)
def test_gpus_as_a_list_of_indices(
    gpus: list[int | str], nodes: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with run("busybox", "ls", "/dev", gpus=gpus, gpu_driver="simulated") as container:
        found = [
            name for name in container.output.split() if name[:6] == "nvidia" and name[6].isdigit()
        ]
    assert found == nodes
    assert "index" not in capfd.readouterr().err, "what is said of --gpus 1 at the command line"


@pytest.mark.parametrize("gpus", [2, 0])
def test_a_number_of_gpus_is_neither_index_nor_count(gpus: int) -> None:
    with pytest.raises(RunError) as caught:
        run("busybox", "true", gpus=gpus)  # type: ignore[arg-type]
    assert str(caught.value) == (
        f"gpus={gpus} could be an index or a count "
        f'(gpus=[{gpus}] is the GPU with index {gpus}, gpus="count={gpus}" any {gpus})'
    )
    assert caught.value.container is None


@pytest.mark.parametrize("gpus", [True, 2.5, [True], [0.5], {0}, object])
def test_what_names_no_gpus(gpus: object) -> None:
    with pytest.raises(RunError) as caught:
        run("busybox", "true", gpus=gpus)  # type: ignore[arg-type]
    assert str(caught.value) == f'gpus={gpus!r} names no GPUs (gpus=[0, 1], gpus="all")'


@pytest.mark.parametrize("make", [run, step])
@pytest.mark.parametrize(
    ("image", "name", "text"),
    [
        (1, None, "image=1 is no name of an image"),
        (["busybox", "true"], None, "is no name of an image"),
        ("busybox", "../x", "invalid container id '../x' (letters, digits"),
    ],
)
def test_a_wrong_image_or_name_is_one_line(
    make: Callable[..., object], image: str, name: str | None, text: str
) -> None:
    with pytest.raises(RunError) as caught:
        make(image, "true", name=name)
    assert text in str(caught.value)


def test_a_command_that_is_a_number() -> None:
    assert words_of((5,)) == ["5"]  # type: ignore[arg-type]
    assert words_of(("sleep", 5)) == words_of((["sleep", 5],)) == ["sleep", "5"]  # type: ignore[arg-type,list-item]


def test_what_is_wrong_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunError) as caught:
        run("busybox", "true", gpus="9", gpu_driver="simulated")
    text = str(caught.value)
    assert text.endswith("device error: 9: unknown device (the simulated driver has 0, 1, 2, 3)")
    assert text not in capfd.readouterr().err


def test_a_commands_own_last_line_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with run("busybox", "sh", "-c", "echo minirun: mine >&2; exit 4") as container:
        assert container.exit_status == 4
    assert "minirun: mine\n" in capfd.readouterr().err


def test_a_notebook_shows_one_line() -> None:
    """IPython takes an exception's own lines: no frames of this package, no chain."""
    code = "import minirun; minirun.run('busybox', 'true', gpus=2)"
    argv = [sys.executable, "-m", "IPython", "--colors=NoColor", "-c", code]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    assert len(lines) == 1, done.stdout
    assert lines[0].startswith("minirun.RunError: gpus=2 could be an index or a count")


def test_help_begins_with_what_is_called() -> None:
    head = (package.__doc__ or "").split("\n\n")[1]
    called = [line.split("(")[0].split()[0] for line in head.splitlines()]
    assert called == [
        "run", "step", "replay", "can_run", "predict", "lesson", "lab", "Container", "network",
        "RunError",
    ]  # fmt: skip
    assert set(called) <= set(package.__all__)


def test_a_stop_that_is_over_is_told_of() -> None:
    with step("busybox", "true") as stepper:
        stepper.until("2:end")
        assert str(stepper).endswith("waits")
        assert str(stepper.until("1")).endswith("waits (1:begin is over)")
        assert "\n" in stepper.why()
        assert str(stepper).endswith("waits"), "a page is for those who ask for it"


def test_a_stop_after_a_call_shows_the_call() -> None:
    """In what is printed, and as HTML; and a name that no event has is refused, not waited for."""
    with step("busybox", "true", **GPUS) as stepper:
        with pytest.raises(UsageError, match="no event is called 'mkndat'") as caught:
            stepper.until("mkndat")
        assert caught.value.hint == "did you mean mknodat?"
        assert stepper.place.startswith("before stage 1")
        stepper.until("mknodat /dev/nvidia0")
        assert stepper.place == "after mknodat /dev/nvidia0 c 195:0: ok, stage 5"
        assert stepper.place in str(stepper)
        assert "mknodat /dev/nvidia0 c 195:0" in str(stepper.timeline).splitlines()[-1]
        assert "mknodat /dev/nvidia0 c 195:0" in stepper._repr_html_().rpartition("<li>")[2]
        stepper.until("5:end")
        assert "done: " in str(stepper.timeline).splitlines()[-1]


def test_so_it_is_in_a_recording() -> None:
    played = Stepper(PlayedRun(replay("gpus-0-1").recording, "en"), None)
    with pytest.raises(UsageError, match="no event is called 'mkndat'"):
        played.until("mkndat")
    played.until("mknodat /dev/nvidia1")
    assert played.place == "after mknodat /dev/nvidia1 c 195:1: ok, stage 5"
    assert "mknodat /dev/nvidia1 c 195:1" in str(played.timeline).splitlines()[-1]
    other = Stepper(PlayedRun(replay("runc").recording, "en"), None)
    assert other.until("procHooks").place.startswith("after procHooks")
    other.until("6:end")
    with pytest.raises(UsageError, match="no event after this one"):
        other.until("3")
