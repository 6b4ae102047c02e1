"""Odd bundles: minirun and runc make the same of them."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli.columns import Runtime
from conftest import Program, wait_until


def write(runtime: Runtime, script: str, **changes: Any) -> None:
    """Write config.json with a shell's script as its command; `linux__x=…` changes linux.x."""
    runtime.config(args=["sh", "-c", script])
    path = runtime.bundle / "config.json"
    config = json.loads(path.read_text())
    for name, value in changes.items():
        place, names = config, name.split("__")
        for part in names[:-1]:
            place = place.setdefault(part, {})
        place[names[-1]] = value
    path.write_text(json.dumps(config))


def says(runtime: Runtime, script: str, **changes: Any) -> str:
    """Return what a container of such a bundle prints; it must end well."""
    write(runtime, script, **changes)
    done = runtime("run", "ID")
    assert done.returncode == 0, done.stdout
    return done.stdout.strip()


PROC = {"destination": "/proc", "type": "proc", "source": "proc"}


def test_without_a_mount_at_dev_the_default_devices_are_there(
    runtime: Runtime, nodes_path: Path
) -> None:
    """Else `>/dev/null` would make a file of that name, and a masked file could not be hidden."""
    runtime = Runtime(runtime.argv, nodes_path, runtime.name)
    runtime.config()
    script = "cd /dev; stat -c '%n %t:%T' null zero full random urandom tty; ls -l | grep -c ^l"
    # the second time they are in the root filesystem: runc 1.3.6 fails at the links to /proc then
    for _ in range(1 if runtime.argv[0] == "runc" else 2):
        said = says(runtime, script, mounts=[PROC], linux__maskedPaths=["/proc/kcore"])
        assert said.splitlines() == [
            "null 1:3", "zero 1:5", "full 1:7", "random 1:8", "urandom 1:9", "tty 5:0", "5",
        ]  # fmt: skip


def test_a_file_in_the_place_of_the_device_null(runtime: Runtime) -> None:
    (runtime.bundle / "rootfs/dev").mkdir(exist_ok=True)
    (runtime.bundle / "rootfs/dev/null").write_text("")
    write(runtime, "true", mounts=[PROC], linux__maskedPaths=["/proc/kcore"])
    assert runtime("run", "ID").returncode == 1


@pytest.mark.parametrize("uid", [0, 1000])
def test_where_a_hook_of_the_start_runs(runtime: Runtime, uid: int) -> None:
    """In process.cwd, as the command; also if only root could go there once more."""
    work = runtime.bundle / "rootfs/work"
    work.mkdir(mode=0o700)
    hook = {"path": "/bin/sh", "args": ["sh", "-c", "readlink /proc/self/cwd >/tmp/where"]}
    (runtime.bundle / "rootfs/tmp").chmod(0o1777)
    said = says(
        runtime, "cat /tmp/where", root__readonly=False, process__cwd="/work",
        process__user={"uid": uid, "gid": uid}, hooks={"startContainer": [hook]},
    )  # fmt: skip
    assert said == "/work"


MAPS = [{"containerID": 0, "hostID": 100000, "size": 1000}]


@pytest.fixture
def open_to_all(runtime: Runtime) -> Runtime:
    """A bundle that the root of a user namespace can reach."""
    for path in (runtime.bundle, *runtime.bundle.parents):
        if not path.stat().st_mode & 0o001:
            path.chmod(path.stat().st_mode | 0o011)
    return runtime


def test_message_queues_belong_to_the_root_of_the_user_namespace(open_to_all: Runtime) -> None:
    mqueue = {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue"}
    tmpfs = {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}
    kinds = ("pid", "mount", "ipc", "uts", "user")
    said = says(
        open_to_all, "stat -c %u /dev/mqueue", mounts=[PROC, tmpfs, mqueue],
        linux__namespaces=[{"type": kind} for kind in kinds],
        linux__uidMappings=MAPS, linux__gidMappings=MAPS,
    )  # fmt: skip
    assert said == "0"


@pytest.mark.parametrize(
    ("line", "home"),
    [
        ("me:x:7:7:me:/at/home", "/at/home"), ("me:x:7:7:me:/at/home:/bin/sh:more", "/at/home"),
        ("  me:x:7:7:me:/at/home\r", "/at/home"), ("you:x:8:8::/no:/bin/sh", "/"),
        ("me:x:7:7:me:/first\nme2:x:7:7:me:/second:/bin/sh", "/first"),
    ],
)  # fmt: skip
def test_home_of_a_line_of_any_length(runtime: Runtime, line: str, home: str) -> None:
    (runtime.bundle / "rootfs/etc/passwd").write_text(f"root:x:0:0::/root:/bin/sh\n{line}\n")
    assert says(runtime, "echo $HOME", process__user={"uid": 7, "gid": 7}) == home


@pytest.mark.parametrize("version", ["1.0.0", "1.0.2"])
def test_the_state_names_the_specification_of_the_runtime(runtime: Runtime, version: str) -> None:
    """And not that of config.json: config.md and runtime.md, "ociVersion"."""
    write(runtime, "sleep 100", ociVersion=version)
    assert runtime("create", "ID").returncode == 0
    told = json.loads(runtime("state", "ID").stdout)["ociVersion"]
    rows = json.loads(runtime("list", "--format", "json").stdout)
    assert {row["ociVersion"] for row in rows} == {told}
    assert told != version and f"spec: {told}\n" in runtime("--version").stdout


def test_a_file_as_output_keeps_its_owner_here_and_not_with_runc(runtime: Runtime) -> None:
    """A departure: so the container's user cannot open /dev/stdout again."""
    script = "echo hi; (echo hi again >>/proc/self/fd/1) 2>/dev/null; true"
    write(runtime, script, process__user={"uid": 1000, "gid": 1000})
    path = runtime.bundle / "log"
    with path.open("w") as log:  # a runc in the foreground would put a pipe in between
        done = subprocess.run(
            [*runtime.argv, "create", runtime.name], stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.DEVNULL, check=False, cwd=runtime.bundle, timeout=60,
        )  # fmt: skip
    assert done.returncode == 0
    assert runtime("start", "ID").returncode == 0
    wait_until(lambda: runtime.status() == "stopped")
    is_runc = runtime.argv[0] == "runc"
    assert path.stat().st_uid == (1000 if is_runc else os.geteuid())
    assert path.read_text() == ("hi\nhi again\n" if is_runc else "hi\n")


def fails(runtime: Runtime, script: str, *flags: str, **changes: Any) -> str:
    """Return what `run` says of a bundle whose container cannot be made."""
    write(runtime, script, **changes)
    runtime.argv += flags
    done = runtime("run", "ID")
    assert done.returncode != 0
    return done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["prestart", "createRuntime", "createContainer"])
def test_a_hook_that_fails_is_told_as_people_search_for_it(runtime: Runtime, kind: str) -> None:
    """The newest runc says "error running createRuntime hook #1: ", and 1.1 leaves out the kind."""
    rows = [{"path": "/bin/true"}, {"path": "/bin/false"}]
    said = fails(runtime, "true", hooks={kind: rows})
    assert re.search(rf"error running ({kind} )?hook #1: ", said), said


def test_a_hook_that_a_filter_kills(runtime: Runtime) -> None:
    hook = {"path": "/bin/sh", "args": ["sh", "-c", "mkdir /tmp/x"]}
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_KILL"}
    said = fails(
        runtime, "true", hooks={"startContainer": [hook]},
        linux__seccomp={"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]},
    )  # fmt: skip
    assert "error running" in said and "bad system call" in said


@pytest.mark.parametrize(
    ("flags", "number"),
    [
        ([], 0), (["SECCOMP_FILTER_FLAG_LOG"], 2), (["SECCOMP_FILTER_FLAG_SPEC_ALLOW"], 4),
        (["SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_TSYNC"], 2),
    ],
)  # fmt: skip
def test_the_flags_of_a_filter_are_told_for_debugging(
    minirun: Program, tmp_path: Path, flags: list[str], number: int
) -> None:
    """In the line that the tests of runc 1.5 search for; runc 1.1 takes no flags."""
    runtime = Runtime(minirun.argv("--debug"), tmp_path, f"flags-{os.getpid()}")
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "flags": flags}
    assert f'level=debug msg="seccomp filter flags: {number}"' in says(
        runtime, "true", linux__seccomp=profile
    )


def test_an_ambient_capability_that_is_not_inheritable_is_a_warning(
    minirun: Program, tmp_path: Path
) -> None:
    """As with runc 1.4; 1.1 fails on it. capabilities(7), "Ambient"."""
    runtime = Runtime(minirun.argv(), tmp_path, f"ambient-{os.getpid()}")
    names = ["CAP_KILL", "CAP_CHOWN"]
    sets = dict.fromkeys(("bounding", "effective", "permitted", "ambient"), names)
    said = says(
        runtime, "grep CapAmb /proc/self/status",
        process__capabilities={**sets, "inheritable": ["CAP_KILL"]},
    )  # fmt: skip
    assert "can't raise ambient capability CAP_CHOWN: it is not inheritable" in said
    assert said.count("can't raise") == 1
    assert "CapAmb:\t0000000000000020" in said


def test_an_error_begins_with_the_programs_name_here_and_not_with_runc(runtime: Runtime) -> None:
    """A departure: of a command that cannot be executed runc's init tells without a name."""
    script = runtime.bundle / "rootfs/run.sh"
    script.write_text("#!/no-such-shell\n")
    script.chmod(0o755)
    runtime.config(args=["/run.sh"])
    done = runtime("run", "ID")
    assert done.returncode != 0
    (line,) = done.stdout.splitlines()
    assert "exec /run.sh: no such file or directory" in line
    assert line.startswith("minirun: exec /run.sh") == (runtime.argv[0] != "runc")


def test_what_a_created_container_holds_open(minirun: Program, tmp_path: Path) -> None:
    """Its log, its two FIFOs and the trampoline, until it becomes its command."""
    runtime = Runtime(minirun.argv(), tmp_path, f"held-{os.getpid()}")
    runtime.config()
    assert runtime("create", "ID").returncode == 0
    fds = Path(f"/proc/{json.loads(runtime('state', 'ID').stdout)['pid']}/fd")
    held = {os.readlink(fd).rpartition("/")[2] for fd in fds.iterdir() if int(fd.name) > 2}
    assert {"events.jsonl", "init.fifo", "runtime.fifo", "exec.fifo"} <= held
    assert runtime("start", "ID").returncode == 0
    wait_until(lambda: not [fd for fd in fds.iterdir() if int(fd.name) > 2])
    assert runtime("delete", "--force", "ID").returncode == 0


def test_a_state_root_that_is_not_there_has_no_containers(minirun: Program, tmp_path: Path) -> None:
    """A departure: runc from 1.2 on fails if the caller has named it."""
    done = minirun("--root", str(tmp_path / "nosuch"), "list", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "nosuch").exists()
