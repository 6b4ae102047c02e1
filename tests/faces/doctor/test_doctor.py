"""`minirun doctor`, and the probes behind it: what they find is what is so, and nothing stays."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import minirun.cgroups.systemd as systemd
from minirun import cgroups, cli
from minirun.faces.commands import doctor
from minirun.faces.commands.doctor import broken_by
from minirun.faces.doctor import attempts as probe
from minirun.faces.doctor import machine
from minirun.faces.doctor.attempts import (
    Ability,
    AbilityReport,
    Lacking,
    Workplace,
    examine,
    in_child,
)
from minirun.faces.doctor.table import ABILITIES, EITHER

SOURCE = str(Path(cli.__file__).parents[2])


def report(tmp_path: Path, *before: str) -> tuple[int, dict[str, AbilityReport], list[str]]:
    """Run `minirun doctor --json`, with a program and its arguments before it if given."""
    command = [*before, sys.executable, "-m", "minirun", "--root", str(tmp_path / "root")]
    command += ["--store", str(tmp_path / "store"), "doctor", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=SOURCE)
    assert result.stderr == ""
    findings = [AbilityReport(**finding) for finding in json.loads(result.stdout)["findings"]]
    return result.returncode, {f.name: f for f in findings}, broken_by(findings)


def test_every_ability_is_reported_and_nothing_stays(nodes_path: Path) -> None:
    status, findings, broken = report(nodes_path)
    assert list(findings) == [ability.name for ability in ABILITIES]
    assert {finding.stage for finding in findings.values()} == set(range(9))
    assert (status == 0) == (not broken)
    assert status == 0, broken
    for finding in findings.values():
        assert finding.found
        assert bool(finding.advice) != finding.works
    assert os.listdir(nodes_path) == []
    with open("/proc/self/mountinfo") as mounts:
        assert f"{nodes_path}/" not in mounts.read()


def test_what_is_said_is_so(tmp_path: Path) -> None:
    _, findings, _ = report(tmp_path)
    assert findings["kernel"].found == f"Linux {os.uname().release}"
    assert not findings["images"].works, "the store is empty"
    assert findings["gpu"].works == os.path.exists("/proc/driver/nvidia/version")
    assert findings["gpu"].works or "SIMULATED" in findings["gpu"].found
    with open("/proc/self/status") as status:
        bounding = next(int(line.split()[1], 16) for line in status if line.startswith("CapBnd"))
    assert ("CAP_SYS_RESOURCE" in findings["capabilities"].found) == (not bounding >> 24 & 1)


def test_a_lost_capability_is_found_where_it_hurts(tmp_path: Path) -> None:
    status, findings, broken = report(tmp_path, "setpriv", "--bounding-set", "-mknod", "--")
    assert (status, broken) == (1, ["mknod"])
    assert "operation not permitted" in findings["mknod"].found
    assert "CAP_MKNOD" in findings["capabilities"].found


def test_without_root_it_says_what_a_user_can_do(tmp_path: Path) -> None:
    """More of it: tests/engines/rootless/test_doctor.py."""
    who = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
    status, findings, broken = report(tmp_path, *who)
    assert (status == 0) == (not broken)
    assert not {"root", "mknod", "device rules v2", "kernel modules"} & findings.keys()
    assert findings["user namespace"].needed


def test_the_page_for_people(nodes_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folders = ["--root", str(nodes_path / "root"), "--store", str(nodes_path / "store")]
    assert cli.main([*folders, "doctor"]) == 0
    page = capfd.readouterr().out
    assert all(title in page for title in doctor.STAGES)
    assert page.endswith("minirun run works here\n")
    empty = f"none in {nodes_path}/store  (minirun images build ubuntu)"
    assert f"  --  images             {empty}" in page
    assert cli.main(["doctor", "nurse"]) == 125


def test_on_a_terminal_its_lines_are_folded_below_the_findings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "isatty", lambda fd: True)
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((40, 24)))
    found = AbilityReport("gpu", 5, False, False, "no driver is on this machine", "no harm at all")
    page = re.sub(r"\x1b\[[0-9;]*m", "", doctor._report([found]))
    assert f"  --  gpu  no driver is on this machine\n{' ' * 11}(no harm at all)\n" in page


def test_one_of_a_pair_is_enough() -> None:
    def found(works: dict[str, bool]) -> list[AbilityReport]:
        names = [name for pair in EITHER for name in pair]
        return [AbilityReport(name, 1, False, works.get(name, True), "", "") for name in names]

    assert broken_by(found({})) == []
    assert broken_by(found({"cgroup v1": False})) == []
    both = found({"cgroup v1": False, "cgroup v2": False})
    assert broken_by(both) == ["cgroup v1 or cgroup v2"]


def test_a_child_that_fails_hangs_or_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks() -> str:
        raise Lacking("not here")

    def fails() -> str:
        return str(os.open("/no/such", os.O_RDONLY))

    def dies() -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

    def errs() -> str:
        return str(1 // 0)

    before = _children()
    assert in_child(lambda: "fine") == (True, "fine")
    assert in_child(lambda: "") == (True, "")
    assert in_child(lacks) == (False, "not here")
    assert in_child(fails) == (False, "/no/such: no such file or directory")
    assert in_child(dies) == (False, "its process was killed")
    assert in_child(errs)[1].startswith("ZeroDivisionError")
    monkeypatch.setattr(probe, "_SECONDS", 0.1)
    assert in_child(lambda: time.sleep(60) or "") == (False, "no answer within 0.1 s")
    assert _children() <= before


def _children() -> set[str]:
    """The children of this process: a fixture of other tests may have one."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_what_a_killed_doctor_leaves_is_swept(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = tmp_path / f".doctor-{ended.pid}-abc"
    left.mkdir()
    place = Workplace(str(left), "")
    group = cgroups.open_cgroup(probe.cgroup_name(place))
    group.create()
    kept = tmp_path / f".doctor-{os.getpid()}-abc"
    kept.mkdir()
    nothing = Ability("nothing", 0, False, lambda place: "nothing", "")
    assert [finding.works for finding in examine((nothing,), str(tmp_path), "")] == [True]
    assert os.listdir(tmp_path) == [kept.name]
    assert not group.exists()


def test_what_an_engine_needs_of_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Workplace(str(tmp_path), str(tmp_path))
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    monkeypatch.setattr(systemd, "BOOTED", str(tmp_path / "nosuch"))
    assert "not booted here" in machine.systemd(place)
    monkeypatch.setattr(systemd, "BOOTED", str(tmp_path))
    monkeypatch.setattr(machine, "SYSTEMD_SOCKETS", ("bus",))
    with pytest.raises(Lacking, match="nothing answers at "):
        machine.systemd(place)
    with socket.socket(socket.AF_UNIX) as bus:
        bus.bind("bus")
        bus.listen()
        assert machine.systemd(place) == "it answers at bus"
        monkeypatch.setitem(sys.modules, "jeepney", None)
        with pytest.raises(Lacking, match="jeepney, which speaks D-Bus, is missing"):
            machine.systemd(place)


def test_an_engine_without_what_calls_a_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Workplace(str(tmp_path), str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Lacking, match="none"):
        machine.engines(place)
    for name, said in (("podman", "podman without conmon"), ("conmon", "podman (by conmon)")):
        (tmp_path / name).touch(0o755)
        if name == "podman":
            with pytest.raises(Lacking, match=said):
                machine.engines(place)
    assert machine.engines(place) == said


MODE = 'NVIDIA\'s runtime: mode "legacy" ({file}, line 2)'


@pytest.mark.parametrize(("programs", "said"), [
    ((), "minirun: stages 4 and 5, or stage 1 with --gpu-mode cdi"),
    (("nvidia-container-runtime-hook",), f"; docker: a hook (no nvidia-cdi-hook); {MODE}"),
    (("nvidia-cdi-hook", "nvidia-container-runtime-hook"),
     f"; docker: CDI since 29.2, a hook before; {MODE}"),
])  # fmt: skip
def test_which_way_gpus_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: tuple[str, ...], said: str
) -> None:
    for name in programs:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    file = tmp_path / "nvidia-container-runtime/config.toml"
    file.parent.mkdir()
    file.write_text('[nvidia-container-runtime]\nmode = "legacy"\n')
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    place = Workplace(str(tmp_path), str(tmp_path))
    assert machine.gpu_way(place).endswith(said.format(file=file))
