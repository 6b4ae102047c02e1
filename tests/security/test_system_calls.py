"""The default profile on real containers: every system call tried from inside, beside podman's."""

import errno
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program, skip
from engines.clients.engine import Podman
from minirun.cli.runc import spec
from minirun.core.kernel.architecture import NATIVE
from minirun.oci import run_config

NAME = f"calls-{os.getpid()}"
HERE = Path(__file__).parent
FAMILIES = ("socket 0x26", "socket 0x28", "socket 0x100000026", "socket 0x100000028")
FAMILIES = FAMILIES if NATIVE.bits == 64 else FAMILIES[:2]
"""AF_ALG and AF_VSOCK, also as the kernel would take them: refused here, as docker does."""
DANGEROUS = (175, 246, 248, 298, 304, 321, 323, 425)
"""init_module, kexec_load, add_key, perf_event_open, open_by_handle_at, bpf, userfaultfd, io_uring.

By x86_64's numbers."""
CHANGED = ("32 67", "32 73", "32 89", "64 452", "32 452")
"""Answered otherwise since podman 5: i386's sigaction, sigpending, readdir; fchmodat2, new then."""
REFUSED = (errno.EPERM, errno.ENOSYS)
X86 = NATIVE.machine == "x86_64"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    for name in ("calls", "few") if X86 else ("few",):
        argv = ["gcc", "-static", "-O1", "-o", str(folder / name), str(HERE / f"{name}.c")]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            skip(f"no C compiler with a static library: {done.stderr[-200:]}")
    return folder


@pytest.fixture(scope="module")
def podman(command: str) -> Iterator[Podman]:
    engine = Podman("runc", command)
    yield engine
    engine.close()


def rows(text: str) -> dict[str, int]:
    found = (line.rsplit(" ", 1) for line in text.splitlines())
    return {name: int(code) for name, code in found}


def inside(minirun: Program, programs: Path, name: str, *flags: str) -> dict[str, int]:
    """What a program says in a container of minirun."""
    volume = f"{programs}:/programs:ro"
    argv = ("run", "--rm", "-v", volume, *flags, "busybox", f"/programs/{name}")
    done = minirun(*argv, timeout=120)
    assert done.returncode == 0, done.stderr
    return rows(done.stdout)


def podmans(podman: Podman, programs: Path, name: str, *flags: str) -> dict[str, int]:
    """What it says in a container of podman's, with the capabilities of minirun's."""
    held = [f"--cap-add={name.removeprefix('CAP_')}" for name in run_config.CAPABILITIES]
    volume = f"--volume={programs}:/programs:ro"
    return rows(podman.run(volume, *held, *flags, f"/programs/{name}"))


@pytest.mark.skipif(not X86, reason="the program speaks x86's three ways")
def test_every_call_is_answered_as_under_podman(
    minirun: Program, podman: Podman, programs: Path
) -> None:
    ours, theirs = inside(minirun, programs, "calls"), podmans(podman, programs, "calls")
    assert len(ours) > 1300
    differ = {key: (ours[key], theirs[key]) for key in ours if ours[key] != theirs[key]}
    if not podman("--version").startswith("podman version 4."):  # whose profile ours is
        differ = {k: v for k, v in differ.items() if k not in CHANGED and not {*v} <= {*REFUSED}}
    assert differ == {}
    refused = {key for key in ours if ours[key] in REFUSED}
    assert {f"64 {number}" for number in DANGEROUS} <= refused
    without = inside(minirun, programs, "calls", "--security-opt", "seccomp=unconfined")
    assert len([key for key in refused if without[key] not in REFUSED]) > 25


def test_calls_that_are_judged_by_their_arguments(
    minirun: Program, podman: Podman, programs: Path
) -> None:
    ours, theirs = inside(minirun, programs, "few"), podmans(podman, programs, "few")
    for family in FAMILIES:
        assert ours.pop(family) == errno.EPERM
        del theirs[family]  # older podmans let it through: newer ones do not
    assert ours == theirs
    assert ours["personality 0xffffffff"] == ours["socket 0x1"] == 0
    assert ours["personality 0x40000"] == errno.ENOSYS


@pytest.mark.parametrize(
    ("capability", "opened"),
    [("SYS_ADMIN", "bpf"), ("SYS_ADMIN", "perf_event_open"), ("SYS_PTRACE", "kcmp"),
     ("BPF", "bpf"), ("PERFMON", "perf_event_open")],
)  # fmt: skip
def test_a_capability_opens_its_calls(
    minirun: Program, programs: Path, capability: str, opened: str
) -> None:
    assert inside(minirun, programs, "few")[opened] == errno.EPERM
    assert inside(minirun, programs, "few", "--cap-add", capability)[opened] != errno.EPERM


def test_the_netlink_audit_log_needs_its_capability(minirun: Program, programs: Path) -> None:
    found = inside(minirun, programs, "few", "--cap-drop", "AUDIT_WRITE")
    assert found["netlink audit"] == errno.EINVAL
    assert inside(minirun, programs, "few")["netlink audit"] != errno.EINVAL


def test_exec_has_the_same_filter(minirun: Program, programs: Path) -> None:
    flags = ("-d", "--name", NAME, "-v", f"{programs}:/programs:ro")
    minirun("run", *flags, "busybox", "sleep", "100")
    told = rows(minirun("exec", NAME, "/programs/few").stdout)
    assert told == inside(minirun, programs, "few")


@pytest.mark.parametrize(
    "flags", [("--uidmap", "0:100000:65536"), ("--cap-add", "ALL"), ("-u", "9")]
)
def test_the_filter_is_there(minirun: Program, flags: tuple[str, ...]) -> None:
    for place in minirun.root.parents:
        if place.stat().st_mode & 0o7777 == 0o700:  # pytest's
            place.chmod(0o711)  # id 0 of the user namespace is another user here, and must get in
    said = minirun("run", "--rm", *flags, "busybox", "grep", "Seccomp:", "/proc/self/status")
    assert said.stdout.split() == ["Seccomp:", "2"], said.stderr


HOSTS = ("-v", "/usr:/usr:ro", "-v", "/etc/alternatives:/etc/alternatives:ro")
"""Debian's compiler and strace, which the image does not have."""


def in_debian(minirun: Program, script: str, *flags: str) -> str:
    done = minirun("run", "--rm", *flags, "debian", "sh", "-ec", script, timeout=120)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_a_compiler_works(minirun: Program) -> None:
    script = """
printf '#include <stdio.h>\nint main(void) { puts("compiled"); return 0; }' >/tmp/a.c
cc -o /tmp/a /tmp/a.c && /tmp/a
"""
    assert in_debian(minirun, script, *HOSTS) == "compiled\n"


def test_strace_of_ones_own_child_works(minirun: Program) -> None:
    if not Path("/usr/bin/strace").exists():
        skip("strace is not installed")
    script = "strace -f -o /tmp/log sh -c 'echo traced; :'; grep -c 'write(1' /tmp/log"
    assert in_debian(minirun, script, *HOSTS) == "traced\n1\n"


def test_apt_get_install_works(minirun: Program, tmp_path: Path) -> None:
    package = tmp_path / "hello"
    (package / "DEBIAN").mkdir(parents=True)
    (package / "usr/bin").mkdir(parents=True)
    (package / "usr/bin/hello-there").write_text("#!/bin/sh\necho installed\n")
    (package / "usr/bin/hello-there").chmod(0o755)
    fields = "Package: hello-there\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\n"
    (package / "DEBIAN/control").write_text(f"{fields}Description: says so\n")
    argv = ["dpkg-deb", "--root-owner-group", "--build", str(package), str(tmp_path / "h.deb")]
    subprocess.run(argv, check=True, capture_output=True)
    script = "apt-get install -y /h.deb >/dev/null; hello-there"
    assert in_debian(minirun, script, "-v", f"{tmp_path}/h.deb:/h.deb:ro") == "installed\n"


def test_a_shell_on_a_terminal_works(minirun: Program) -> None:
    script = "echo 'stty size >/dev/null; sleep 0.1 & wait; echo alive' | sh -i 2>/dev/null"
    assert "alive" in in_debian(minirun, script)


def test_no_new_privileges(minirun: Program) -> None:
    command = ("busybox", "grep", "-E", "NoNewPrivs|Seccomp:", "/proc/self/status")
    option = ("--security-opt", "no-new-privileges")
    said = minirun("run", "--rm", *option, *command).stdout.split()
    assert said == ["NoNewPrivs:", "1", "Seccomp:", "2"]
    minirun("run", "-d", "--name", NAME, *option, "busybox", "sleep", "100")
    assert minirun("exec", NAME, *command[1:]).stdout.split() == said


def test_the_log_and_inspect_name_the_profile(minirun: Program) -> None:
    minirun("run", "-d", "--name", NAME, "busybox", "sleep", "100")
    (event,) = (event for event in minirun.events(NAME) if event["name"] == "seccomp")
    assert event["why"].startswith("profile default: ")
    found = json.loads(minirun("inspect", "--json", NAME).stdout)
    asked = found["wanted"]["seccomp"]
    assert asked["profile"] == "default"
    assert asked["instructions"] == event["args"]["instructions"]
    assert 300 < asked["allowed"] < (330 if NATIVE.bits == 64 else 360)
    assert found["differences"] == []
    line = next(x for x in minirun("inspect", "--text", NAME).stdout.splitlines() if "seccomp" in x)
    assert f"default, {asked['allowed']} calls allowed by name" in line


def test_processes_are_limited(minirun: Program) -> None:
    script = "cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null"
    for asked, limit in (("", "2048"), ("-1", "max"), ("0", "max"), ("7", "7")):
        flags = ("--pids-limit", asked) if asked else ()
        assert minirun("run", "--rm", *flags, "busybox", "sh", "-c", script).stdout.strip() == limit


def test_counters_that_tell_of_others_are_hidden(minirun: Program) -> None:
    assert minirun("run", "--rm", "busybox", "cat", "/proc/interrupts").stdout == ""
    option = ("--security-opt", "systempaths=unconfined")
    assert "CPU0" in minirun("run", "--rm", *option, "busybox", "cat", "/proc/interrupts").stdout


def test_a_bundle_of_spec_has_no_limit_that_cannot_be_kept(minirun_both: Program) -> None:
    """On a hybrid machine cgroup2 has no pids controller; `run` itself leaves its default out."""
    flag = minirun_both.flags[-1]
    kept = spec._count_processes(flag)
    resources = json.loads(minirun_both("spec", "busybox").stdout)["linux"]["resources"]
    assert resources.get("pids") == ({"limit": 2048} if kept else None)
    asked = minirun_both("spec", "--pids-limit", "7", "busybox").stdout
    assert json.loads(asked)["linux"]["resources"]["pids"] == {"limit": 7}
    done = minirun_both("run", "--name", NAME, "busybox", "true")
    assert (done.returncode, done.stderr) == (0, "")
    notes = [event["name"] for event in minirun_both.events(NAME) if event["kind"] == "note"]
    assert ("no limit of processes" in notes) == (not kept)
    if not kept:
        refused = minirun_both("run", "--rm", "--pids-limit", "7", "busybox", "true")
        assert (refused.returncode, refused.stderr.count("\n")) == (125, 1)
        assert "linux.resources.pids.limit: the cgroup2" in refused.stderr
