"""runc's `exec`: the same words to minirun and to the real runc, side by side."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.columns import Runtime
from conftest import Program, cgroup, wait_until
from minirun.cgroups import hierarchies

EXEC = (
    (("--user", "5:6", "ID", "id"), "uid=5 gid=6"),
    (("-g", "7", "ID", "id"), "uid=0(root) gid=0(root) groups=7"),
    (("-e", "A=b", "ID", "sh", "-c", "echo $A"), "b"),
    (("--cwd", "/tmp", "ID", "pwd"), "/tmp"),
    (("--cap", "CAP_NET_RAW", "ID", "grep", "CapEff", "/proc/self/status"),
     "CapEff:\t0000000000002020"),
    (("--no-new-privs", "ID", "grep", "NoNewPrivs", "/proc/self/status"), "NoNewPrivs:\t1"),
    (("--preserve-fds", "0", "ID", "ls", "/proc/self/fd"), "0\n1\n2\n3"),
    (("-u", "1", "ID", "id"), "uid=1(daemon) gid=0(root)"),
    (("-u", "1:7", "ID", "id"), "uid=1(daemon) gid=7"),
    (("-u", "1", "ID", "sh", "-c", "echo $HOME"), "/usr/sbin"),
    (("--cap", "CAP_UNKNOWN", "--cap", "CAP_SYSLOG", "ID", "true"), "warning"),
)  # fmt: skip


@pytest.mark.parametrize(("words", "said"), EXEC, ids=lambda value: str(value)[:30])
def test_exec(runtime: Runtime, words: tuple[str, ...], said: str) -> None:
    runtime.running()
    done = runtime("exec", *words)
    assert done.returncode == 0, done.stdout
    if "/proc/self/fd" in words:
        assert len(done.stdout.split()) == 4, "stdio, and the one that ls itself opens"
    elif said == "warning":
        assert "warning" in done.stdout and "CAP_UNKNOWN" in done.stdout
    else:
        assert done.stdout.strip().startswith(said)


FAILING = (
    (("ID", "nosuch"), 255, 'exec: "nosuch": executable file not found in $PATH'),
    (("ID", "/nosuch/x"), 255, "stat /nosuch/x: no such file or directory"),
    (("ID", "/etc/passwd"), 255, 'exec: "/etc/passwd": permission denied'),
    (("--cwd", "/nosuch", "ID", "pwd"), 255, "no such file or directory"),
    (("--cwd", "tmp", "ID", "pwd"), 255, "must be an absolute path"),
    ((), 1, ""),
    (("--nosuch", "ID", "true"), 1, "nosuch"),
    (("-e", "NAME", "ID", "true"), 255, "invalid environment variable: "),
    (("--process", "/nosuch", "ID"), 255, "no such file or directory"),
    (("ID", "sh", "-c", "exit 7"), 7, ""),
    (("ID", "sh", "-c", "kill -9 $$"), 137, ""),
)  # fmt: skip


@pytest.mark.parametrize(("words", "status", "text"), FAILING, ids=lambda value: str(value)[:30])
def test_exec_that_fails(runtime: Runtime, words: tuple[str, ...], status: int, text: str) -> None:
    runtime.running()
    done = runtime("exec", *words)
    assert done.returncode == status
    assert text in done.stdout.replace("\\", ""), "(runc's log quotes the quotes)"


def test_exec_as_conmon_and_the_shim_call_it(runtime: Runtime) -> None:
    runtime.running()
    process = {"cwd": "/tmp", "args": ["sh", "-c", "pwd; sleep 100"], "env": ["PATH=/bin"],
               "user": {"uid": 1, "gid": 2}}  # fmt: skip
    (runtime.bundle / "p.json").write_text(json.dumps(process))
    words = ("exec", "--pid-file", "pid", "--process", "p.json", "--detach", "ID")
    assert runtime(*words).returncode == 0
    pid = (runtime.bundle / "pid").read_text()
    comm = Path(f"/proc/{pid}/comm")  # runc does not wait for its execve
    wait_until(lambda: comm.read_text().strip() in ("sh", "sleep"))
    assert (os.stat(f"/proc/{pid}").st_uid, os.stat(f"/proc/{pid}").st_gid) == (1, 2)
    assert int(pid) in json.loads(runtime("ps", "-f", "json", "ID").stdout)


def test_exec_has_the_containers_score(runtime: Runtime) -> None:
    """What a shim has of its own (1, as containerd's) is no score of its container's processes."""
    runtime.config(oomScoreAdj=321)
    runtime.running()
    words = ("exec", "ID", "cat", "/proc/self/oom_score_adj")
    assert runtime(*words).stdout.strip() == "321"


def test_a_process_has_the_containers_capabilities(runtime: Runtime) -> None:
    runtime.config(
        capabilities={
            "bounding": ["CAP_KILL"],
            "effective": ["CAP_KILL"],
            "permitted": ["CAP_KILL"],
        }
    )
    runtime.running()
    process = {"cwd": "/", "args": ["grep", "CapEff", "/proc/self/status"], "env": ["PATH=/bin"]}
    words = ("exec", "--process", own_file(runtime.bundle / "p.json", process), "ID")
    assert runtime(*words).stdout.split()[1] == f"{1 << 5:016x}"


def test_a_command_whose_pid_cannot_be_told_ends(runtime: Runtime) -> None:
    runtime.running()
    words = ("exec", "--detach", "--pid-file", "/nosuch/pid", "ID", "sleep", "432")
    assert runtime(*words).returncode != 0
    wait_until(lambda: len(json.loads(runtime("ps", "-f", "json", "ID").stdout)) == 1)


def test_an_existing_cgroup_for_exec(minirun_both: Program) -> None:
    minirun_both("run", "-d", "--name", "g", "busybox", "sleep", "100")
    parent = Path(cgroup(minirun_both, "g"))
    (parent / "inner").mkdir()
    path = "inner" if minirun_both.flags[-1] == "v2" else "pids:inner"
    done = minirun_both("exec", "--cgroup", path, "g", "cat", "/proc/self/cgroup")
    assert done.returncode == 0, done.stderr
    assert any(line.endswith("/inner") for line in done.stdout.splitlines())
    refused = minirun_both("exec", "--cgroup", "../other", "g", "true")
    assert refused.returncode != 0 and "invalid --cgroup" in refused.stderr
    assert ": bad sub cgroup path: ../other is not a sub cgroup path" in refused.stderr
    refused = minirun_both("exec", "--cgroup", "nosuch", "g", "true")
    assert ": adding pid to /" in refused.stderr
    assert "/nosuch/cgroup.procs: no such file or directory" in refused.stderr
    refused = minirun_both("exec", "--cgroup", "whaaat:/", "g", "true")
    assert ": unknown controller whaaat" in refused.stderr


@pytest.fixture
def v2(command: str, tmp_path: Path) -> Iterator[Program]:
    """The program on cgroup2, where each cgroup has a controller that it can hand down."""
    mount = next((h.path for h in hierarchies.mounted() if h.version == 2), "")
    control = Path(mount, "cgroup.subtree_control")
    before = control.read_text() if mount else ""
    program = Program(command, tmp_path / "containers", "--cgroup", "v2")
    if not before.strip():
        if not mount or "hugetlb" not in Path(mount, "cgroup.controllers").read_text().split():
            pytest.skip("cgroup2 has no controllers here")
        control.write_text("+hugetlb")
    yield program
    program.clean()
    if not before.strip():
        with contextlib.suppress(OSError):  # another test uses it, too
            control.write_text("-hugetlb")


@pytest.mark.parametrize("affinity", [(), ("execCPUAffinity",)])
def test_exec_beside_an_init_that_has_moved(v2: Program, affinity: tuple[str, ...]) -> None:
    """systemd and docker in a container move init into a cgroup below, and hand controllers down.

    The container's own cgroup takes no process any more: EBUSY, cgroups(7).
    """
    v2("run", "-d", "--name", "moved", "busybox", "sleep", "100")
    own = Path(cgroup(v2, "moved"))
    (own / "init").mkdir()
    pids = (own / "cgroup.procs").read_text().split()
    (own / "init/cgroup.procs").write_text(pids[0])
    name = (own / "cgroup.controllers").read_text().split()[:1] or ["hugetlb"]
    (own.parent / "cgroup.subtree_control").write_text(f"+{name[0]}")
    (own / "cgroup.subtree_control").write_text(f"+{name[0]}")
    words: tuple[str, ...] = ("moved", "cat", "/proc/self/cgroup")
    if affinity:
        args = {"cwd": "/", "args": list(words[1:]), "env": ["PATH=/bin"]}
        process = own_file(v2.root.parent / "p.json", {**args, affinity[0]: {"initial": "0"}})
        words = ("--process", process, "moved")
    done = v2("exec", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "0::/init" in done.stdout.splitlines()
    (own / "cgroup.subtree_control").write_text(f"-{name[0]}")


def own_file(path: Path, content: Any) -> str:
    path.write_text(json.dumps(content))
    return str(path)


def test_a_cgroup_for_each_controller(runtime: Runtime) -> None:
    """runc takes the flag as often as it is given: on version 1 each has a tree of its own."""
    if not all(Path("/sys/fs/cgroup", name, "tasks").exists() for name in ("memory", "pids")):
        pytest.skip("needs the memory and pids hierarchies of version 1")
    runtime.running()
    own = f"/minirun-test-{runtime.name}"
    for name in ("memory", "pids"):
        Path(f"/sys/fs/cgroup/{name}{own}/sub-{name}").mkdir()
    words = ("--cgroup", "memory:sub-memory", "--cgroup", "pids:/sub-pids")
    done = runtime("exec", *words, "ID", "cat", "/proc/self/cgroup")
    assert done.returncode == 0, done.stdout
    paths = dict(line.split(":")[1:] for line in done.stdout.splitlines())
    assert (paths["memory"], paths["pids"]) == (f"{own}/sub-memory", f"{own}/sub-pids")
    assert paths["devices"] == own
    refused = runtime("exec", "--cgroup", "memory:sub-memory", "--cgroup", "pids:no", "ID", "true")
    assert refused.returncode == 255
