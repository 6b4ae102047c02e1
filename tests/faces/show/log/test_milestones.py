"""What many calls come to, at the level of stages: checked against the calls themselves."""

import re

import pytest

from conftest import Program
from minirun.faces import recordings
from minirun.faces.show.log import milestones, recording
from minirun.faces.show.log.event import Event, event_of
from minirun.faces.show.log.narrate import Narrator
from minirun.faces.show.log.recording import Recording


def told(found: Recording) -> list[str]:
    narrator = Narrator("stages", found.init)
    return [row.what for event in found.events for row in narrator.rows(event)]


def counted(found: Recording, name: str, path: str, actor: str) -> int:
    """Count calls in another way: by words of the log."""
    return sum(
        event.name == name and event.actor == actor and not event.errno
        and re.search(path, str(event.args.get("path"))) is not None
        for event in found.events
    )  # fmt: skip


def test_stage_5_is_what_figure_3_names() -> None:
    (found,) = recording.read(recordings.path("gpus-0-1"))
    lines = told(found)
    begin = next(at for at, line in enumerate(lines) if line.startswith("puts the GPUs in"))
    end = next(at for at, line in enumerate(lines) if "GPUs SIMULATED" in line)
    inside = "\n".join(lines[begin:end])
    for noun, name, path in (
        ("libraries in /usr/lib64: libcuda.so.", "move_mount", r"/usr/lib64/[^/]*\.so"),
        ("programs in /usr/bin: nvidia-smi, ", "move_mount", "/usr/bin/"),
        ("nodes in /dev: nvidia0 c 195:0, nvidia1 c 195:1, ", "mknodat", "/dev/"),
        ("GPUs in /proc/driver/nvidia: 0000:07:00.0, ", "move_mount", "/proc/driver/nvidia/gpus/"),
        ("cgroup rules: c 195:255 rw, ", "write", "/devices.allow$"),
    ):
        assert f"\n{counted(found, name, path, 'cli')} {noun}" in inside


@pytest.mark.parametrize("name", recordings.OWN)
def test_every_start_says_what_init_is_made_of(name: str) -> None:
    for found in recording.read(recordings.path(name)):
        text = "\n".join(told(found))
        overlay = any(event.args.get("fstype") == "overlay" for event in found.events)
        said = "\nmount overlay: 1 layer of the image, one to write on\n" in text
        assert said == overlay
        usual = "/proc, /dev, " if not name.startswith("cdi") else "/usr/bin/nvidia-smi, "
        assert re.search(rf"\n\d+ mounts: {usual}", text)
        if found.complete:
            assert re.search(r"\n\d+ paths hidden or read-only: ", text)
            left = 3 if name == "slurm" else 14  # a bundle by `spec`; docker's for all others
            assert f"\ncapset: {left} capabilities left\n" in text


@pytest.mark.parametrize("name", recordings.RECORDINGS)
def test_what_it_counts_is_there(name: str) -> None:
    """runc drops each capability twice (of 41 in Linux 6), and makes its FIFO with mknodat(2)."""
    for found in recording.read(recordings.path(name)):
        text = "\n".join(told(found))
        dropped = {
            str(event.args["arg2"]) for event in found.events
            if event.args.get("option") == "PR_CAPBSET_DROP" and not event.errno
        }  # fmt: skip
        assert all(int(number) <= 41 for number in dropped)
        said = re.findall(r"(\d+) capabilities dropped", text)
        assert all(int(number) <= len(dropped) for number in said)
        assert not re.search(r"\d+ devices?: .*fifo", text)
        made = [e for e in found.events if e.name == "mknodat" and e.args["kind"] in ("c", "b")]
        rows = re.findall(r"^(\d+) (?:devices?|nodes?)\b", text, re.MULTILINE)
        assert sum(map(int, rows)) <= len([e for e in made if not e.errno])


def test_rows_stand_in_the_order_of_time() -> None:
    (found,) = recording.read(recordings.path("gpus-0-1"))
    narrator = Narrator("stages", found.init)
    rows = [row for event in found.events for row in narrator.rows(event)]
    times = [float(row.time.removesuffix("ms")) for row in rows]
    assert times == sorted(times)


def test_the_rules_of_either_version(minirun_both: Program, request: pytest.FixtureRequest) -> None:
    """Version 1 has a write for each device, version 2 one program for all."""
    flags = ("--progress", "lanes", "--gpu-driver", "simulated", "--gpus", "0")
    done = minirun_both("run", "--rm", *flags, "busybox", "true", env={"LANG": "C.UTF-8"})
    after = done.stderr.partition("ldconfig ended")[2]
    way = "cgroup rules: an eBPF" if "v2" in request.node.name else "4 cgroup rules: c 195:255 rw"
    assert way in after, done.stderr


def call(name: str, **args: object) -> Event:
    fields = {"kind": "syscall", "name": name, "stage": 5, "actor": "cli", "args": args}
    return event_of(fields)


def test_one_of_a_kind_and_what_failed() -> None:
    gathered = milestones.Milestones()
    gathered.take(call("mknodat", path="/dev/nvidia0", kind="c", major=195, minor=0))
    gathered.take(call("mknodat", path="/dev/nvidia1")._replace(errno="EPERM"))
    (group,) = gathered.before(call("x"))
    assert milestones.row(group, 0, 0).what == "1 node in /dev: nvidia0 c 195:0"
    assert gathered.before(call("x")) == []


def test_each_folder_has_a_row_of_its_own() -> None:
    gathered = milestones.Milestones()
    for path in ("/usr/lib/liba.so.1", "/usr/lib/gbm/libb.so", "/usr/lib/libc.so.1"):
        gathered.take(call("move_mount", path=path))
    assert [milestones.row(group, 0, 0).what for group in gathered.before(call("x"))] == [
        "1 library in /usr/lib/gbm: libb.so", "2 libraries in /usr/lib: liba.so.1, libc.so.1",
    ]  # fmt: skip


@pytest.mark.parametrize("value", [None, "", "x", "lowerdir", 7, [1], "0x"])
def test_a_recording_may_say_anything(value: object) -> None:
    for name in ("mount", "capset", "mknodat", "move_mount", "write"):
        event = call(name, data=value, effective=value, path=value, flags=value)
        assert isinstance(milestones.of_one(event), str)
        assert isinstance(milestones.namespaces(event), str)
        gathered = milestones.Milestones()
        gathered.take(event)
        for group in gathered.before(event):
            assert milestones.row(group, 0, 0).what
