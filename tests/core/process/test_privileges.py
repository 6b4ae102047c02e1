"""Stage 7's privileges, as /proc/self/status of the container's command shows them."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import minirun
from conftest import Program, skip
from minirun.core.errors import MinirunError
from minirun.core.process import caps, privileges
from minirun.core.process.caps import NUMBERS
from minirun.oci.rlimits import RLIMITS

NAME = f"p-{os.getpid()}"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(minirun: Program, layer: Path, tmp_path: Path) -> Run:
    """Runs a command in a bundle whose config.json has these properties in `process`."""

    def in_bundle(
        command: str | list[str], host: dict[str, Any] | None = None, **process: Any
    ) -> subprocess.CompletedProcess[str]:
        args = ["sh", "-c", command] if isinstance(command, str) else command
        config = minirun.spec(*args)
        config["process"] |= process
        for key in [key for key, value in process.items() if value is None]:
            del config["process"][key]
        (tmp_path / "config.json").write_text(json.dumps(config))
        return minirun("run", "--bundle", str(tmp_path), NAME, **(host or {}))

    return in_bundle


def status(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    rows = (line.partition(":") for line in done.stdout.splitlines())
    return {name: value.strip() for name, _, value in rows}


SHOW = ["cat", "/proc/self/status"]


def test_user_group_and_groups(run: Run) -> None:
    user = {"uid": 1000, "gid": 1001, "additionalGids": [7, 8, 4294967294]}
    found = status(run(SHOW, user=user))
    assert found["Uid"].split() == ["1000"] * 4
    assert found["Gid"].split() == ["1001"] * 4
    assert found["Groups"].split() == ["7", "8", "4294967294"]


def test_the_callers_groups_do_not_stay(run: Run) -> None:
    """CVE-2022-36109: supplementary groups of the user that starts the runtime."""
    host = {"extra_groups": [31, 32]}
    assert status(run(SHOW, host))["Groups"].split() == ["0"], "its own alone"
    assert status(run(SHOW, host, user={"uid": 5, "gid": 5}))["Groups"] == ""


def test_the_highest_ids(run: Run) -> None:
    top = 2**32 - 2
    found = status(run(SHOW, user={"uid": top, "gid": top}))
    assert found["Uid"].split() == [str(top)] * 4


def test_without_a_user_it_is_root(run: Run) -> None:
    assert status(run(SHOW, user=None))["Uid"].split() == ["0"] * 4


@pytest.mark.parametrize(("umask", "shown"), [(None, "0022"), (0o077, "0077"), (0, "0000")])
def test_umask(run: Run, umask: int | None, shown: str) -> None:
    user: dict[str, int] = {"uid": 0, "gid": 0} | ({} if umask is None else {"umask": umask})
    assert status(run(SHOW, {"umask": 0o777}, user=user))["Umask"] == shown


@pytest.mark.parametrize("wanted", [True, False])
def test_no_new_privileges(run: Run, wanted: bool) -> None:
    assert status(run(SHOW, noNewPrivileges=wanted))["NoNewPrivs"] == str(int(wanted))


def masks(found: dict[str, str]) -> dict[str, int]:
    return {kind: int(found[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")}


def test_capabilities_of_root(run: Run) -> None:
    names = ["CAP_CHOWN", "CAP_KILL"]
    bits = caps.mask(names)
    sets = {"bounding": names, "effective": names, "permitted": names}
    assert masks(status(run(SHOW, capabilities=sets))) == {
        "Inh": 0, "Prm": bits, "Eff": bits, "Bnd": bits, "Amb": 0,
    }  # fmt: skip


def test_capabilities_of_a_user_are_gone_at_exec(run: Run) -> None:
    """capabilities(7): a program of an ordinary user gets its file's and the ambient ones."""
    names = ["CAP_CHOWN"]
    sets = {"bounding": names, "effective": names, "permitted": names}
    found = masks(status(run(SHOW, capabilities=sets, user={"uid": 9, "gid": 9})))
    assert found == {"Inh": 0, "Prm": 0, "Eff": 0, "Bnd": caps.mask(names), "Amb": 0}


def test_ambient_capabilities_reach_a_user(run: Run) -> None:
    names = ["CAP_NET_BIND_SERVICE"]
    kinds = ("bounding", "effective", "permitted", "inheritable", "ambient")
    user = {"uid": 9, "gid": 9}
    found = masks(status(run(SHOW, capabilities=dict.fromkeys(kinds, names), user=user)))
    assert found == dict.fromkeys(("Inh", "Prm", "Eff", "Bnd", "Amb"), caps.mask(names))


@pytest.mark.parametrize("sets", [None, {}, {"bounding": []}])
def test_no_capabilities(run: Run, sets: Any) -> None:
    assert not any(masks(status(run(SHOW, capabilities=sets))).values())


def test_a_capability_that_cannot_be_granted_is_a_warning(run: Run, minirun: Program) -> None:
    """runtime-spec, config.md: "MUST log a warning", and go on."""
    missing = sorted(name for name in NUMBERS if not caps.held() & caps.mask([name]))
    names = ["CAP_CHOWN", "CAP_FROM_THE_FUTURE", *missing]
    sets = {"bounding": names, "effective": names, "permitted": names}
    found = masks(status(run(SHOW, capabilities=sets)))
    assert found["Bnd"] == found["Eff"] == caps.mask(["CAP_CHOWN"])
    (note,) = [row for row in minirun.events(NAME) if row["name"] == "capabilities refused"]
    assert note["args"] == {"names": sorted([*missing, "CAP_FROM_THE_FUTURE"])}


LIMITS = {  # what /proc/self/limits calls them: proc_pid_limits(5)
    "CPU": "Max cpu time", "FSIZE": "Max file size", "DATA": "Max data size",
    "STACK": "Max stack size", "CORE": "Max core file size", "RSS": "Max resident set",
    "NPROC": "Max processes", "NOFILE": "Max open files", "MEMLOCK": "Max locked memory",
    "AS": "Max address space", "LOCKS": "Max file locks", "SIGPENDING": "Max pending signals",
    "MSGQUEUE": "Max msgqueue size", "NICE": "Max nice priority",
    "RTPRIO": "Max realtime priority", "RTTIME": "Max realtime timeout",
}  # fmt: skip


def limits(text: str) -> dict[str, tuple[str, str]]:
    found = {}
    for line in text.splitlines()[1:]:
        name, soft, hard = re.split(r" {2,}", line)[:3]
        found[name] = (soft, hard)
    return found


def test_every_resource_limit_is_set(run: Run) -> None:
    """Each to a number of its own, so that none is mistaken for another."""
    hard = limits(Path("/proc/self/limits").read_text())
    rows, expected = [], {}
    for index, (short, long) in enumerate(LIMITS.items()):
        most = 2**64 - 1 if hard[long][1] == "unlimited" else int(hard[long][1])
        value = min(most, 1_000_000_000 + index)
        rows.append({"type": f"RLIMIT_{short}", "soft": max(0, value - 1), "hard": value})
        expected[long] = (str(max(0, value - 1)), str(value))
    assert {row["type"] for row in rows} == RLIMITS.keys()
    done = run("cat /proc/self/limits", rlimits=rows)
    assert done.returncode == 0, done.stderr
    assert limits(done.stdout) == expected


def test_an_unlimited_limit(run: Run) -> None:
    unlimited = {"type": "RLIMIT_CORE", "soft": 2**64 - 1, "hard": 2**64 - 1}
    if limits(Path("/proc/self/limits").read_text())["Max core file size"][1] != "unlimited":
        skip("core files are limited here, and no process can raise that")
    done = run("cat /proc/self/limits", rlimits=[unlimited])
    assert limits(done.stdout)["Max core file size"] == ("unlimited", "unlimited")


def test_a_limit_holds(run: Run) -> None:
    row = {"type": "RLIMIT_FSIZE", "soft": 4096, "hard": 4096}
    done = run("head -c 10000 /dev/zero > /file; echo $?; wc -c < /file", rlimits=[row])
    assert done.stdout.split() == [str(128 + signal.SIGXFSZ), "4096"]


def test_a_limit_above_the_hosts(run: Run) -> None:
    if caps.held() & caps.mask(["CAP_SYS_RESOURCE"]):
        skip("CAP_SYS_RESOURCE may raise every limit")
    hard = limits(Path("/proc/self/limits").read_text())["Max open files"][1]
    row = {"type": "RLIMIT_NOFILE", "soft": 5, "hard": int(hard) + 1}
    done = run("true", rlimits=[row])
    assert done.returncode == 1
    assert "RLIMIT_NOFILE" in done.stderr
    assert "CAP_SYS_RESOURCE" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_out_of_memory_score(run: Run) -> None:
    done = run("cat /proc/self/oom_score_adj", oomScoreAdj=321)
    assert done.stdout == "321\n"


def test_the_working_directory_is_made(run: Run, layer: Path) -> None:
    done = run("pwd; ls -ld . | cut -c1-10", cwd="/made/for/me")
    assert done.stdout == "/made/for/me\ndrwxr-xr-x\n"
    assert (layer / "made/for/me").is_dir()


def test_a_working_directory_behind_a_link_of_the_image(run: Run, layer: Path) -> None:
    (layer / "link").symlink_to("../../../../../real")
    (layer / "real").mkdir()
    done = run("pwd -P; touch here", cwd="/link/below")
    assert done.stdout == "/real/below\n"
    assert (layer / "real/below/here").exists()


@pytest.mark.parametrize("sets", [None, {"bounding": ["CAP_DAC_OVERRIDE"]}])
def test_a_working_directory_that_the_user_could_not_enter(
    run: Run, layer: Path, sets: Any
) -> None:
    """The runtime goes there before it becomes the user, as runc does."""
    (layer / "private").mkdir(mode=0o700)
    user = {"uid": 1000, "gid": 1000}
    done = run("pwd; ls .", cwd="/private", user=user, capabilities=sets)
    assert done.stdout == "/private\n"
    assert "Permission denied" in done.stderr


def test_a_working_directory_that_is_not_there_is_126() -> None:
    with pytest.raises(MinirunError) as caught:
        privileges.go_to("/nosuch")
    assert caught.value.line() == "chdir to cwd ('/nosuch'): no such file or directory"
    assert caught.value.status == 126


def test_a_working_directory_that_is_a_file(run: Run) -> None:
    done = run("pwd", cwd="/etc/passwd")
    assert done.returncode == 1
    assert "/etc/passwd" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("cwd", ["/proc/self/cwd", "/proc/self/fd/{}", "/proc/1/root"])
def test_a_working_directory_through_a_magic_link(run: Run, cwd: str) -> None:
    """CVE-2024-21626: a descriptor of the host as the way out."""
    directory = os.open("/etc", os.O_RDONLY)
    done = run("ls passwd-", {"pass_fds": (directory,)}, cwd=cwd.format(directory))
    os.close(directory)
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1


def test_a_directory_out_of_the_container_is_found_out(tmp_path: Path) -> None:
    """go_to itself, with a descriptor of the host that somebody forgot to close."""
    program = """
import os, sys
sys.path[:0] = sys.argv[2:]
from minirun.core.errors import MinirunError
from minirun.core.kernel import mounts, namespaces
from minirun.core.process import privileges
namespaces.unshare(namespaces.CLONE_NEWNS)
mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
os.mkdir(sys.argv[1] + "/proc")
mounts.mount("proc", sys.argv[1] + "/proc", "proc")
fd = os.open("/etc", os.O_RDONLY)
os.chroot(sys.argv[1])
try:
    privileges.go_to(f"/proc/self/fd/{fd}")
except MinirunError as error:
    print(error)
"""
    source = str(Path(minirun.__file__).parents[1])
    argv = [sys.executable, "-c", program, str(tmp_path), source]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    expected = r"cwd '/proc/self/fd/\d+' lies outside of the container\n"
    assert re.fullmatch(expected, done.stdout), done.stderr


def test_signals_are_as_for_any_program(run: Run) -> None:
    """What the caller, or the interpreter, ignores or blocks does not reach the command."""

    def nohup() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR2})

    found = status(run(SHOW, {"preexec_fn": nohup, "restore_signals": False}))
    assert (found["SigIgn"], found["SigBlk"]) == ("0" * 16, "0" * 16)


def test_nobody_is_left_dumpable_or_traced(run: Run) -> None:
    """The command itself is an ordinary process again: it may look into its own /proc."""
    assert run("ls /proc/self/fd > /dev/null && echo fine").stdout == "fine\n"


def test_the_session_is_its_own(run: Run) -> None:
    done = run("cut -d' ' -f5,6 /proc/$$/stat", host={"stdin": subprocess.DEVNULL})
    assert done.stdout == "1 1\n"
