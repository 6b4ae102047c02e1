"""Images that are made for the host's ldconfig: what it can open, take and print, and how long.

Each sandbox limits itself before it calls ldconfig, so that a lack of limits is seen in the result
and not by the host.
"""

import json
import os
import resource
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, descendants, skip
from gpu.sandbox import Sandbox
from gpu.test_hostile import LIBRARIES, Run
from minirun.core.kernel import mounts
from minirun.core.kernel.architecture import NATIVE
from minirun.core.rootfs.inroot import Root
from minirun.gpu import ldconfig
from minirun.gpu.drivers import inventory
from minirun.gpu.simulated import elf
from minirun.gpu.target import Target

ZERO = os.makedev(1, 5)
_GIB = 1 << 30


@pytest.fixture(scope="module")
def greedy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A static program that takes what it can get."""
    compiler = shutil.which("gcc")
    if not compiler:
        skip("no gcc to build a greedy program with")
    target = tmp_path_factory.mktemp("greedy") / "ldconfig"
    source = Path(__file__).parent / "greedy.c"
    subprocess.run([compiler, "-static", "-o", target, source], check=True)
    return str(target)


def run(box: Sandbox, program: str = "/sbin/ldconfig", timeout: float = 20) -> dict[str, Any]:
    """Run it, with at most 2 GiB of memory, whatever minirun allows it."""

    def work(root: Root) -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (2 * _GIB, 2 * _GIB))
        ldconfig.TIMEOUT = timeout  # type: ignore[assignment]
        fd = ldconfig.open_host(f"@{program}")
        ldconfig.run(Target(root, box.root, fd), f"@{program}", (f"/{LIBRARIES}",))

    return box.inside(work)


def ended(outcome: dict[str, Any]) -> dict[str, Any]:
    (note,) = (e for e in outcome["events"] if e["name"] == "ldconfig ended")
    return dict(note["args"])


def take(box: Sandbox, greedy: str, mode: str) -> dict[str, Any]:
    box.view("/etc/mode").write_text(mode)
    outcome = run(box, greedy)
    assert not outcome["error"].startswith("CRASH"), outcome["error"]
    return outcome


def library(box: Sandbox, name: str) -> None:
    data = elf.shared_object(f"{name}.1", NATIVE.machine, ("libc.so.6",), name)
    box.view(f"/{LIBRARIES}/{name}.1.0").write_bytes(data)


def linked(box: Sandbox, name: str) -> bool:
    return box.view(f"/{LIBRARIES}/{name}.1").is_symlink()


# --- what it can open and take -----------------------------------------------------------------


def test_no_node_at_any_path_can_be_opened(debian: Sandbox, greedy: str) -> None:
    for folder in ("", "/var", "/mounted"):
        debian.view(folder or "/").mkdir(exist_ok=True)

    def mount_one(root: Root) -> None:
        mounts.mount("tmpfs", f"{debian.root}/mounted", "tmpfs")  # below the root, with devices
        os.mknod(f"{debian.root}/mounted/zero", 0o020666, ZERO)

    assert debian.inside(mount_one)["error"] == ""
    os.mknod(debian.view("/zero"), 0o020666, ZERO)
    os.mknod(debian.view("/var/zero"), 0o020666, ZERO)
    os.mknod(debian.view("/null"), 0o020666, os.makedev(1, 3))
    os.mknod(debian.view("/disk"), 0o060666, os.makedev(7, 0))  # a loop device, only as a number
    debian.view("/link").symlink_to("/zero")
    said = ended(take(debian, greedy, "d"))["said"]
    assert said.count("Permission denied") == 6, said
    with open(debian.view("/zero"), "rb") as file:
        assert file.read(1) == b"\0", "outside of ldconfig it is as before"


def test_its_memory_is_limited(debian: Sandbox, greedy: str) -> None:
    words = ended(take(debian, greedy, "m"))["said"].split()
    assert words[0] == "MiB" and 100 < int(words[1]) <= 256, words


def test_the_size_of_its_files_is_limited(debian: Sandbox, greedy: str) -> None:
    assert ended(take(debian, greedy, "f"))["said"] == "write -1 File too large"


def test_its_processor_time_is_limited(
    debian: Sandbox, greedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = [(name, 1 if name == "RLIMIT_CPU" else most) for name, most in ldconfig.LIMITS]
    monkeypatch.setattr(ldconfig, "LIMITS", tuple(limits))
    outcome = take(debian, greedy, "c")
    assert "/ldconfig terminated with signal 9 (" in outcome["error"]
    assert ended(outcome)["status"] == -9


def test_what_it_prints_is_one_short_line_without_escapes(debian: Sandbox, greedy: str) -> None:
    error = take(debian, greedy, "n")["error"]
    assert len(error) < 750
    assert error.isprintable()
    assert "]0;title" in error, "the end of it is told"


# --- hostile configurations and libraries, with the real program -------------------------------


@pytest.mark.parametrize("kind", ("node", "link to a node", "block node"))
def test_a_node_as_configuration(kind: str, debian: Sandbox) -> None:
    conf = debian.view("/etc/ld.so.conf")
    conf.unlink()
    if kind == "block node":
        os.mknod(conf, 0o060666, os.makedev(7, 0))
    else:
        os.mknod(debian.view("/zero") if "link" in kind else conf, 0o020666, ZERO)
    if kind == "link to a node":
        conf.symlink_to("/zero")
    library(debian, "libx.so")
    start = time.monotonic()
    outcome = run(debian)
    assert outcome["error"] == ""
    assert time.monotonic() - start < 5
    assert "Permission denied" in ended(outcome)["said"]
    assert linked(debian, "libx.so"), "the driver's folders are not named by it"


def test_a_node_as_library(debian: Sandbox) -> None:
    os.mknod(debian.view(f"/{LIBRARIES}/libzero.so.1"), 0o020666, ZERO)
    os.mkfifo(debian.view(f"/{LIBRARIES}/libfifo.so.1"))
    library(debian, "libx.so")
    assert run(debian)["error"] == ""
    assert linked(debian, "libx.so")


def test_thousands_of_configuration_files(debian: Sandbox) -> None:
    folder = debian.view("/etc/ld.so.conf.d")
    for number in range(5000):
        (folder / f"{number}.conf").write_text(f"/nowhere/{number}\n/usr/lib\n")
    library(debian, "libx.so")
    assert run(debian)["error"] == ""
    assert linked(debian, "libx.so")


@pytest.mark.parametrize(
    "text",
    ("include /etc/ld.so.conf\n", "include /etc/ld.so.conf /etc/ld.so.con[f] /etc/../etc/ld.s*f\n"),
    ids=("once", "more and more"),
)  # fmt: skip
def test_a_configuration_that_includes_itself(text: str, debian: Sandbox) -> None:
    debian.view("/etc/ld.so.conf").write_text(text)
    start = time.monotonic()
    outcome = run(debian, timeout=2)
    assert time.monotonic() - start < 5
    assert "\n" not in outcome["error"] and "CRASH" not in outcome["error"]


def test_a_line_without_an_end(debian: Sandbox) -> None:
    with open(debian.view("/etc/ld.so.conf"), "wb") as file:
        file.truncate(1 << 40)  # a hole
    library(debian, "libx.so")
    start = time.monotonic()
    assert run(debian)["error"] == ""
    assert time.monotonic() - start < 5
    assert linked(debian, "libx.so"), "as if it had none"


# --- whole runs --------------------------------------------------------------------------------


@pytest.fixture
def hostile(minirun: Program, tmp_path: Path) -> Run:
    inventory("simulated", str(tmp_path / "store"))
    return Run(minirun, tmp_path / "store")


@pytest.mark.parametrize("mode", ("legacy", "cdi"))
def test_a_run_of_an_image_with_a_node_as_configuration(mode: str, hostile: Run) -> None:
    layer = hostile.image()
    (layer / "etc/ld.so.conf").unlink()
    os.mknod(layer / "etc/ld.so.conf", 0o020666, ZERO)
    flags = ("run", "--rm", "--gpu-driver=simulated", "--gpus=all")
    done = hostile.program(
        *flags, "--gpu-mode", mode, "hostile", "ls", f"/{LIBRARIES}",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (2 * _GIB, 2 * _GIB)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "libcuda.so.1" in done.stdout.split()


@pytest.mark.parametrize("mode", ("legacy", "cdi"))
def test_it_is_in_the_containers_cgroup_and_ends_with_it(
    mode: str, minirun_both: Program, tmp_path: Path
) -> None:
    inventory("simulated", str(tmp_path / "store"))
    hostile = Run(minirun_both, tmp_path / "store")
    program, layer = hostile.program, hostile.image()
    (layer / "etc/ld.so.conf").unlink()
    os.mkfifo(layer / "etc/ld.so.conf")
    flags = ("run", "--name", "c", "--gpu-driver=simulated")
    process = program.start(*flags, "--gpus=0", "--gpu-mode", mode, "hostile", "true")
    try:
        pid = _ldconfig_below(process.pid)
        state = json.loads((program.directory("c") / "state.json").read_text())
        cgroups = Path(f"/proc/{pid}/cgroup").read_text()
        assert state["cgroup"]["path"] in cgroups
        assert cgroups == Path(f"/proc/{state['pid']}/cgroup").read_text()
        start = time.monotonic()
        assert program("delete", "--force", "c").returncode == 0
        assert not os.path.exists(f"/proc/{pid}")
        text = process.communicate(timeout=10)[1]
        assert time.monotonic() - start < 5
        assert process.returncode != 0 and text.rstrip().count("\n") <= 1, text
    finally:
        process.kill()
        process.wait()


def _ldconfig_below(pid: int) -> int:
    """Wait until a descendant of `pid` is ldconfig; return its pid."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for child in descendants(pid):
            try:
                if Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"ldconfig\0"):
                    return child
            except OSError:
                continue
        time.sleep(0.02)
    raise AssertionError("ldconfig was not started")
