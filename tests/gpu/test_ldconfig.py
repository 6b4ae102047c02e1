"""ldconfig in isolation: what it may see, and what happens where it cannot do its work."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from gpu.sandbox import Sandbox
from minirun.core.errors import GPUError
from minirun.core.kernel.architecture import NATIVE
from minirun.core.rootfs.inroot import Root
from minirun.gpu import ldconfig
from minirun.gpu.nvidia.shared import ldcache
from minirun.gpu.target import Target
from required import installed

LIBRARIES = f"/usr/lib/{NATIVE.triplet}"


def run(box: Sandbox, program: str, timeout: float = 20) -> dict[str, Any]:
    def work(root: Root) -> None:
        ldconfig.TIMEOUT = timeout  # type: ignore[assignment]
        fd = ldconfig.open_host(f"@{program}")
        ldconfig.run(Target(root, box.root, fd), f"@{program}", (LIBRARIES,))

    return box.inside(work)


def said(outcome: dict[str, Any]) -> str:
    (note,) = (e for e in outcome["events"] if e["name"] == "ldconfig ended")
    return str(note["args"]["said"])


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A static program that tells what it sees."""
    compiler = installed("gcc")
    target = tmp_path_factory.mktemp("probe") / "ldconfig"
    source = Path(__file__).parent / "isolation.c"
    subprocess.run([compiler, "-static", "-o", target, source], check=True)
    return str(target)


def test_what_it_sees(debian: Sandbox, probe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/evil.so")
    leak = os.open("/etc", os.O_RDONLY)
    os.set_inheritable(leak, True)
    try:
        outcome = run(debian, probe)
    finally:
        os.close(leak)
    assert outcome["error"] == ""
    words = said(outcome).partition(" argv ")
    facts = dict(zip(words[0].split()[::2], words[0].split()[1::2], strict=True))
    assert facts == {
        "pid": "1", "effective": "2", "variables": "0", "descriptors": "0",
        "proc": "0", "sys": "0", "dev": "0", "host": "-1", "up": "-1", "mknod": "-1",
    }  # fmt: skip
    assert words[2] == f"ldconfig -f /etc/ld.so.conf -C /etc/ld.so.cache {LIBRARIES}"


def test_nothing_of_it_is_left_in_the_container(debian: Sandbox, probe: str) -> None:
    before = debian.mounts()
    run(debian, probe)
    assert debian.mounts() == before
    assert not debian.view("/etc/null").exists()


def test_a_dynamic_program_is_refused(debian: Sandbox) -> None:
    assert "is no static program" in run(debian, "/bin/true")["error"]


def test_a_script_is_refused(debian: Sandbox, tmp_path: Path) -> None:
    script = tmp_path / "ldconfig"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert "is no static program" in run(debian, str(script))["error"]


def test_ubuntus_program_is_the_one_beside_the_script(tmp_path: Path) -> None:
    (tmp_path / "ldconfig").write_text("#!/bin/sh\n")
    program = "/sbin/ldconfig.real" if os.path.exists("/sbin/ldconfig.real") else "/sbin/ldconfig"
    shutil.copy(program, tmp_path / "ldconfig.real")
    fd = ldconfig.open_host(f"@{tmp_path}/ldconfig")
    assert os.readlink(f"/proc/self/fd/{fd}") == f"{tmp_path}/ldconfig.real"
    os.close(fd)


@pytest.mark.parametrize("name", ("", "/sbin/ldconfig", "@/nowhere/ldconfig"))
def test_the_containers_own_is_never_run(name: str) -> None:
    assert ldconfig.open_host(name) == -1


def test_the_user_is_told_that_it_is_not_run(capfd: pytest.CaptureFixture[str]) -> None:
    ldconfig.open_host("/sbin/ldconfig")
    text = "/sbin/ldconfig is code of the image and is not run (@/sbin/ldconfig is the host's)"
    assert capfd.readouterr().err == f"minirun: warning: {text}\n"


def test_it_fails(debian: Sandbox) -> None:
    debian.view("/etc/ld.so.cache~").mkdir()  # where the program makes its new cache
    error = run(debian, "/sbin/ldconfig")["error"]
    assert error.startswith(
        "ldcache error: process /sbin/ldconfig failed with error code: 1 (it said"
    )
    assert "/etc/ld.so.cache" in error


def test_it_cannot_even_start(debian: Sandbox) -> None:
    def work(root: Root) -> None:
        ldconfig.run(Target(root, debian.root, os.open("/etc", os.O_RDONLY)), "@/etc", ())

    error = debian.inside(work)["error"]
    assert error.startswith("ldcache error: execve: ldconfig: Permission denied")


def test_a_fifo_as_configuration_costs_the_timeout(debian: Sandbox) -> None:
    conf = debian.view("/etc/ld.so.conf")
    conf.unlink()
    os.mkfifo(conf)
    start = time.monotonic()
    outcome = run(debian, "/sbin/ldconfig", timeout=0.3)
    assert "or took longer than 0.3 s" in outcome["error"]
    assert time.monotonic() - start < 5
    (note,) = (event for event in outcome["events"] if event["name"] == "clone3")
    assert not os.path.exists(f"/proc/{note['ret']}")


def test_a_fifo_as_configuration_costs_the_patience_alone(debian: Sandbox) -> None:
    conf = debian.view("/etc/ld.so.conf")
    conf.unlink()
    os.mkfifo(conf)
    start = time.monotonic()
    outcome = run(debian, "/sbin/ldconfig", timeout=60)
    assert "ldconfig did not end: it slept for 5 s" in outcome["error"]
    assert 5 <= time.monotonic() - start < 20


def test_no_configuration_at_all(busybox: Sandbox, store: str) -> None:
    outcome = busybox.configure("--device=0", "--utility", store=store)
    assert outcome["error"] == ""
    folders = ["/usr/lib64", "/usr/lib32"] if NATIVE.bits == 64 else ["/usr/lib"]
    assert outcome["result"]["edits"]["libraryFolders"] == folders
    link = busybox.view(f"{folders[0]}/libnvidia-ml.so.1")
    assert os.readlink(link) == "libnvidia-ml.so.550.163.01"
    assert any(event["name"] == "ld.so.conf absent" for event in outcome["events"])
    sonames = [
        entry.soname for entry in ldcache.parse(busybox.view("/etc/ld.so.cache").read_bytes())
    ]
    assert "libnvidia-ml.so.1" in sonames


def test_a_missing_program_is_told(debian: Sandbox) -> None:
    def work(root: Root) -> int:
        return ldconfig.open_host("@/nowhere/ldconfig")

    outcome = debian.inside(work)
    (note,) = (event for event in outcome["events"] if event["name"] == "ldconfig absent")
    assert "no SONAME links" in note["why"]


def test_open_host_names_the_culprit() -> None:
    with pytest.raises(GPUError, match="/bin/true is no static program"):
        ldconfig.open_host("@/bin/true")
