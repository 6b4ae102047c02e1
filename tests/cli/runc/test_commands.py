"""runc's command line: the same words to minirun and to the real runc, side by side.

Both columns: the exit status must be the same, and so must be the texts that engines look for.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from cli.columns import Runtime
from conftest import Program, wait_until
from minirun.cgroups import hierarchies
from minirun.cli.words import signal_number
from minirun.core.errors import UsageError

MISTAKES = (
    (("state", "nosuch"), 1, "does not exist"),
    (("start", "nosuch"), 1, "does not exist"),
    (("kill", "nosuch"), 1, "does not exist"),
    (("kill", "--all", "nosuch"), 1, "does not exist"),
    (("delete", "nosuch"), 1, "does not exist"),
    (("delete", "--force", "nosuch"), 0, ""),
    (("pause", "nosuch"), 1, "does not exist"),
    (("resume", "nosuch"), 1, "does not exist"),
    (("ps", "nosuch"), 1, "does not exist"),
    (("events", "nosuch"), 1, "does not exist"),
    (("update", "nosuch"), 1, "does not exist"),
    (("exec", "--pid-file", "pid", "nosuch", "true"), 255, "does not exist"),
    (("state",), 1, ""), (("state", "a", "b"), 1, ""), (("kill",), 1, ""),
    (("list", "-f", "yaml"), 1, "format"), (("state", "--nosuch"), 1, "nosuch"),
    (("create", "--bundle", "/nosuch", "x"), 1, "/nosuch"),
)  # fmt: skip


@pytest.mark.parametrize(("words", "status", "text"), MISTAKES, ids=lambda v: str(v)[:40])
def test_mistakes(runtime: Runtime, words: tuple[str, ...], status: int, text: str) -> None:
    done = runtime(*words)
    assert done.returncode == status
    assert text in done.stdout


VERBS = (
    "state", "start", "kill", "delete", "delete -f", "pause", "resume", "ps", "events", "update",
    "exec --pid-file pid", "create", "run -b .",
)  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_an_id_is_no_path_in_any_command(runtime: Runtime, verb: str) -> None:
    """`delete -f ..` of one runtime removed the directory above its root."""
    for name in ("..", "a/b", "a b", "a@b", "."):
        is_exec = verb.startswith("exec")
        done = runtime(*verb.split(), name, *(["true"] if is_exec else []))
        assert done.returncode == (255 if is_exec else 1)
        assert "container id" in done.stdout.lower()
    assert runtime.bundle.is_dir()


def test_a_life(runtime: Runtime) -> None:
    assert runtime("create", "--pid-file", "pid", "ID").returncode == 0
    state = json.loads(runtime("state", "ID").stdout)
    assert state["status"] == "created" and state["owner"] == ""
    assert (runtime.bundle / "pid").read_text() == str(state["pid"])
    assert runtime("start", "ID").returncode == 0
    again = runtime("start", "ID")
    assert again.returncode == 1 and "cannot start" in again.stdout
    assert runtime("delete", "ID").returncode == 1
    assert runtime("kill", "ID", "0").returncode == 0
    assert runtime("kill", "ID", "KILL").returncode == 0
    wait_until(lambda: runtime.status() == "stopped")
    killed = runtime("kill", "ID", "KILL")
    assert killed.returncode == 1 and "container not running" in killed.stdout
    assert runtime("kill", "--all", "ID", "KILL").returncode == 0
    assert json.loads(runtime("state", "ID").stdout)["pid"] == 0
    started = runtime("start", "ID")
    assert started.returncode == 1 and "cannot start a container that has stopped" in started.stdout
    assert runtime("delete", "ID").returncode == 0
    assert runtime("delete", "ID").returncode == 1


def test_pause(runtime: Runtime) -> None:
    runtime.running()
    assert "container not paused" in runtime("resume", "ID").stdout
    assert runtime("pause", "ID").returncode == 0
    assert runtime.status() == "paused"
    again = runtime("pause", "ID")
    assert again.returncode == 1 and "container not running" in again.stdout
    refused = runtime("exec", "ID", "true")
    assert refused.returncode == 255
    assert "cannot exec in a paused container" in refused.stdout
    assert runtime("delete", "ID").returncode == 1
    assert runtime("kill", "ID", "TERM").returncode == 0
    assert runtime.status() == "paused"
    assert runtime("resume", "ID").returncode == 0
    assert runtime.status() == "running"


def test_a_paused_container_is_killed(runtime: Runtime) -> None:
    runtime.running()("pause", "ID")
    runtime("kill", "ID", "KILL")
    runtime("resume", "ID")  # what docker does too: version 1 holds the signal back until then
    wait_until(lambda: runtime.status() == "stopped")


def test_pausing_one_that_was_not_started(runtime: Runtime) -> None:
    runtime("create", "ID")
    assert runtime("pause", "ID").returncode == 0
    started = runtime("start", "ID")
    assert started.returncode == 1
    assert "cannot start a container in the paused state" in started.stdout
    assert runtime("resume", "ID").returncode == 0
    assert runtime.status() == "created"
    assert runtime("start", "ID").returncode == 0


def test_list(runtime: Runtime) -> None:
    head = "ID          PID         STATUS      BUNDLE      CREATED     OWNER"
    assert runtime("list").stdout.rstrip() == head
    runtime("create", "ID")
    assert runtime("list", "-q").stdout.split() == [runtime.name]
    (row,) = json.loads(runtime("list", "--format", "json").stdout)
    assert row["id"] == runtime.name and row["status"] == "created" and row["owner"] == "root"
    head, line = runtime("list").stdout.splitlines()
    assert head.split() == ["ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"]
    cells = [runtime.name, str(row["pid"]), "created", str(runtime.bundle), row["created"], "root"]
    assert line.split() == cells
    for title, cell in zip(head.split(), cells, strict=True):
        assert line[head.index(title) :].startswith(cell), "the columns are aligned"


def test_ps(runtime: Runtime) -> None:
    runtime.running()
    pid = json.loads(runtime("state", "ID").stdout)["pid"]
    assert json.loads(runtime("ps", "--format", "json", "ID").stdout) == [pid]
    head, row = runtime("ps", "ID").stdout.splitlines()
    assert head.split()[:3] == ["UID", "PID", "PPID"] and row.split()[1] == str(pid)
    lines = runtime("ps", "ID", "-o", "pid,comm").stdout.splitlines()
    assert [line.split() for line in lines] == [["PID", "COMMAND"], [str(pid), "sleep"]]
    assert runtime("ps", "ID", "-o", "comm").returncode == 1
    assert runtime("ps", "ID", "--nosuch").returncode == 1


def test_flags_after_the_id_as_slurm_writes_them(runtime: Runtime) -> None:
    runtime.config(args=["sh", "-c", "echo here; exit 5"])
    done = runtime("run", "ID", "-b", str(runtime.bundle)) if "runc" not in runtime.argv[0] else (
        runtime("run", "-b", str(runtime.bundle), "ID")
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (5, "here\n")
    assert runtime("state", "ID").returncode == 1


def test_run_keep(runtime: Runtime) -> None:
    runtime.config(args=["true"])
    assert runtime("run", "--keep", "-b", ".", "ID").returncode == 0
    assert runtime.status() == "stopped"
    cgroup = cgroups_of(runtime)
    assert cgroup and all(path.is_dir() for path in cgroup), "who is to read its counters?"
    assert runtime("delete", "ID").returncode == 0
    assert not any(path.is_dir() for path in cgroup)


def test_what_a_kept_container_has_left_running_is_killed(runtime: Runtime) -> None:
    """Without a pid namespace of its own its end is not that of all its processes."""
    if "runc" in runtime.argv[0]:
        pytest.skip("runc 1.1 leaves it to `delete`")
    runtime.config(args=["sh", "-c", "sleep 100 >/dev/null 2>&1 & echo $!"])
    config = json.loads((runtime.bundle / "config.json").read_text())
    config["linux"]["namespaces"].remove({"type": "pid"})
    (runtime.bundle / "config.json").write_text(json.dumps(config))
    done = runtime("run", "--keep", "-b", ".", "ID")
    assert done.returncode == 0
    wait_until(lambda: not os.path.exists(f"/proc/{done.stdout.strip()}"))
    assert runtime("delete", "ID").returncode == 0


@pytest.mark.parametrize("init_is_gone", [False, True])
def test_kill_reaches_all_if_pids_are_the_hosts(runtime: Runtime, init_is_gone: bool) -> None:
    """kill.bats of runc 1.3.6, "kill KILL [host pidns]"; runc 1.1 kills init alone."""
    if "runc" in runtime.argv[0]:
        pytest.skip("runc 1.1 kills init alone")
    runtime.config(args=["sleep", "100"])
    config = json.loads((runtime.bundle / "config.json").read_text())
    config["linux"]["namespaces"].remove({"type": "pid"})
    (runtime.bundle / "config.json").write_text(json.dumps(config))
    assert runtime("run", "-d", "-b", ".", "ID").returncode == 0
    init = json.loads(runtime("state", "ID").stdout)["pid"]
    for _ in range(3):
        assert runtime("exec", "-d", "ID", "sleep", "100").returncode == 0
    pids = cgroups_of(runtime)[0].joinpath("cgroup.procs").read_text().split()
    assert len(pids) == 4
    if init_is_gone:
        os.kill(init, signal.SIGKILL)
        wait_until(lambda: runtime.status() == "stopped")
    assert runtime("kill", "ID", "TERM").returncode == int(init_is_gone)
    assert runtime("kill", "ID", "KILL").returncode == 0
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))
    assert runtime.status() == "stopped"
    assert runtime("delete", "ID").returncode == 0


def test_a_hybrid_host_shows_the_containers_cgroup_in_cgroup2(runtime: Runtime) -> None:
    if not os.path.exists("/sys/fs/cgroup/unified/cgroup.procs"):
        pytest.skip("needs cgroup2 at /sys/fs/cgroup/unified beside version 1")
    runtime.running()
    pid = json.loads(runtime("state", "ID").stdout)["pid"]
    own = f"0::/minirun-test-{runtime.name}"
    assert Path(f"/proc/{pid}/cgroup").read_text().splitlines()[-1] == own
    joined = runtime("exec", "ID", "cat", "/proc/self/cgroup")
    assert joined.stdout.splitlines()[-1] == own
    assert runtime("delete", "--force", "ID").returncode == 0
    assert not Path("/sys/fs/cgroup/unified" + own[3:]).exists()


def test_the_order_in_a_list(runtime: Runtime) -> None:
    """runc's own tests look for the members one behind the other."""
    runtime.running()
    text = runtime("list", "--format", "json").stdout
    names = [text.index(f'"{name}"') for name in STATE]
    assert names == sorted(names)


def test_the_namespaces_of_a_template(runtime: Runtime) -> None:
    (runtime.bundle / "config.json").unlink(missing_ok=True)
    assert runtime("spec").returncode == 0
    linux = json.loads((runtime.bundle / "config.json").read_text())["linux"]
    kinds = [row["type"] for row in linux["namespaces"]]
    pure = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    assert kinds == ["pid", "network", "ipc", "uts", "mount", *(["cgroup"] if pure else [])]


STATE = ("ociVersion", "id", "pid", "status", "bundle", "rootfs", "created", "owner")


def cgroups_of(runtime: Runtime) -> list[Path]:
    """Where the container's cgroup is, in each hierarchy that has controllers."""
    return [
        Path(hierarchy.path, f"minirun-test-{runtime.name}")
        for hierarchy in hierarchies.mounted()
        if hierarchy.names or Path(hierarchy.path, "cgroup.controllers").read_text().strip()
    ]


def test_without_path_and_home(runtime: Runtime) -> None:
    """podman's kill, pause, resume and delete have an environment of one variable."""
    runtime.running()
    env = {"XDG_RUNTIME_DIR": ""}
    for words in (("pause", "ID"), ("resume", "ID"), ("kill", "ID", "9"), ("state", "ID")):
        program = shutil.which(runtime.argv[0]) or runtime.argv[0]
        runtime.argv[0] = program
        assert runtime(*words, env=env).returncode == 0
    assert runtime("delete", "--force", "ID", env=env).returncode == 0


@pytest.mark.parametrize("form", ["text", "json"])
def test_log_lines(runtime: Runtime, form: str) -> None:
    log = runtime.bundle / "log"
    for _ in range(2):
        words = ("--log", str(log), "--log-format", form, "state", "nosuch")
        done = runtime(*words)
        assert done.returncode == 1 and "does not exist" in done.stdout
    lines = log.read_text().splitlines()
    assert len(lines) == 2, "appended"
    if form == "json":
        row = json.loads(lines[-1])
        assert row["level"] == "error" and "does not exist" in row["msg"] and row["time"]
    else:
        assert lines[-1].startswith('time="20') and " level=error msg=" in lines[-1]


def test_spec(runtime: Runtime) -> None:
    (runtime.bundle / "config.json").unlink()
    assert runtime("spec").returncode == 0
    config = json.loads((runtime.bundle / "config.json").read_text())
    assert config["process"]["args"] == ["sh"] and config["process"]["terminal"]
    assert config["process"]["noNewPrivileges"] and config["root"]["readonly"]
    again = runtime("spec")
    assert again.returncode == 1
    assert "File config.json exists. Remove it first" in again.stdout
    other = runtime.bundle / "other"
    other.mkdir()
    assert runtime("spec", "--rootless", "-b", str(other)).returncode == 0
    linux = json.loads((other / "config.json").read_text())["linux"]
    kinds = {row["type"] for row in linux["namespaces"]}
    assert "user" in kinds and "network" not in kinds
    assert linux["uidMappings"] == [{"containerID": 0, "hostID": 0, "size": 1}]


def test_run_without_pivot_root(minirun: Program, tmp_path: Path) -> None:
    made = Runtime(minirun.argv(), tmp_path, f"moved-{os.getpid()}")
    made.config(args=["sh", "-c", "ls /; test -d /proc/1 && cat /proc/1/comm"])
    done = made("run", "--no-pivot", "-b", ".", "ID")
    assert done.returncode == 0, done.stdout
    assert "bin" in done.stdout.split() and done.stdout.split()[-1] in ("sh", "cat")
    assert "boot" not in done.stdout.split(), "no directory of the host"
    names = [event["name"] for event in minirun.events() if event["stage"] == 7]
    assert "pivot_root" not in names and "chroot" in names


def test_the_callers_keyring_stays(minirun: Program, tmp_path: Path) -> None:
    for flags, found in (((), True), (("--no-new-keyring",), False)):
        # Another name each time: the kernel forgets the keyring of a dead process a little later.
        made = Runtime(minirun.argv(), tmp_path, f"keyring-{os.getpid()}-{found:d}")
        made.config(args=["cat", "/proc/keys"])
        done = made("run", *flags, "-b", ".", "ID")
        assert done.returncode == 0 and (f"_ses.{made.name}" in done.stdout) == found


@pytest.mark.parametrize("user", [0, 1000])
def test_exec_has_the_containers_keyring(minirun: Program, tmp_path: Path, user: int) -> None:
    """As with runc: a key that the container's service has added is there for `exec`."""
    made = Runtime(minirun.argv(), tmp_path, f"ring-{os.getpid()}-{user}")
    made.config(user={"uid": user, "gid": user})
    assert made("create", "-b", ".", "ID").returncode == 0
    assert made("start", "ID").returncode == 0
    shown = [made("exec", "ID", "cat", "/proc/keys").stdout for _ in range(2)]
    made("delete", "--force", "ID")
    found = [[line.split()[0] for line in text.splitlines() if made.name in line] for text in shown]
    assert len(found[0]) == 1 and found[0] == found[1], shown


def test_sockets_that_systemd_hands_on(minirun: Program, tmp_path: Path) -> None:
    """LISTEN_PID must be the runtime's own pid, which podman's is not: sd_listen_fds(3)."""
    made = Runtime(minirun.argv(), tmp_path, f"listen-{os.getpid()}")
    made.config(args=["sh", "-c", "echo $LISTEN_FDS $LISTEN_PID; ls /proc/self/fd"])
    words = " ".join([*made.argv, "run", "-b", ".", made.name])
    for pid, said in (("$$", ["1", "1", "0", "1", "2", "3", "4"]), ("1", ["0", "1", "2", "3"])):
        script = f"LISTEN_FDS=1 LISTEN_PID={pid} exec {words} 3</dev/null"
        done = subprocess.run(
            ["sh", "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.stdout.split() == said, done.stderr


def test_leaked_descriptors_are_closed(minirun: Program, tmp_path: Path) -> None:
    """buildah leaks ten pipe ends into create, and waits for their end."""
    made = Runtime(minirun.argv(), tmp_path, f"leak-{os.getpid()}")
    made.config()
    reading, writing = os.pipe()
    argv = [*made.argv, "create", "--bundle", str(tmp_path), made.name]
    subprocess.run(argv, pass_fds=(writing,), check=True, stdout=subprocess.DEVNULL)
    made("start", "ID")
    os.close(writing)
    assert os.read(reading, 1) == b"", "the container does not hold it"
    os.close(reading)
    assert made.status() == "running"


def test_preserved_descriptors_must_be_open(minirun: Program, tmp_path: Path) -> None:
    made = Runtime(minirun.argv(), tmp_path, f"kept-{os.getpid()}")
    made.config(args=["true"])
    done = made("run", "--preserve-fds", "1", "-b", ".", "ID")
    assert done.returncode == 1 and "preserved-fd 0: descriptor 3 is not open" in done.stdout


@pytest.mark.parametrize("words", [("create", "-b", "."), ("exec", "-d")])
def test_a_socket_gets_a_pidfd(minirun: Program, tmp_path: Path, words: tuple[str, ...]) -> None:
    made = Runtime(minirun.argv(), tmp_path, f"pidfd-{os.getpid()}")
    made.config()
    if words[0] == "exec":
        made.running()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        last = ("ID", "sleep", "9") if words[0] == "exec" else ("ID",)
        more = ("--pidfd-socket", "s", "--pid-file", "pid")
        done = made(words[0], *more, *words[1:], *last)
        assert done.returncode == 0, done.stdout
        with server.accept()[0] as sent:
            _, (pidfd,), _, _ = socket.recv_fds(sent, 16, 1)
    lines = Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines()
    assert f"Pid:\t{(tmp_path / 'pid').read_text()}" in lines
    os.close(pidfd)


def test_docker_statuses_where_docker_would_run_it(minirun: Program) -> None:
    """In a container of `run IMAGE`, exec fails as docker's does; elsewhere with 255."""
    minirun("run", "-d", "--name", "d", "busybox", "sleep", "100")
    assert minirun("exec", "d", "nosuch").returncode == 127
    assert minirun("exec", "d", "/etc/passwd").returncode == 126


@pytest.mark.parametrize(
    "text", ["SIGRTMIN+\u00b2", "RTMIN+" + "0" * 5_000, "RTMIN+0001234", "RTMIN+16", "9" * 5_000,
             "\u00b2", "RTMAX--1", "65", "RTMIN+"]
)  # fmt: skip
def test_what_is_no_signal(text: str) -> None:
    """An image may say anything of its StopSignal."""
    with pytest.raises(UsageError, match="unknown signal"):
        signal_number(text)


def test_signals_in_real_time() -> None:
    assert [signal_number(name) for name in ("SIGRTMIN+3", "rtmax-15", "64")] == [37, 49, 64]


# --- flags that would have no effect --------------------------------------------------------------


@pytest.mark.parametrize(
    "flags", ["--step", "-e A=1", "--memory 64m", "--web=1", "--log f", "-t", "--pace 1"]
)
def test_flags_of_an_images_run_are_refused(minirun: Program, tmp_path: Path, flags: str) -> None:
    made = Runtime(minirun.argv(), tmp_path, f"refused-{os.getpid()}")
    made.config(args=["true"])
    done = made("run", *flags.split(), "-b", ".", "ID")
    assert done.returncode == 1
    assert "no effect with --bundle (config.json says all; it is for run IMAGE)" in done.stdout
    assert done.stdout.count("\n") == 1
    assert made("state", "ID").returncode == 1


def test_a_flag_that_only_bundles_have_makes_it_runcs_run(minirun: Program, tmp_path: Path) -> None:
    """Beside a config.json: no image is looked for then."""
    made = Runtime(minirun.argv(), tmp_path, f"beside-{os.getpid()}")
    made.config(args=["echo", "here"])
    assert made("run", "--no-pivot", "ID").stdout == "here\n"
    done = made("run", "--hostname", "h", "--pull", "never", "nosuchimage")
    assert "no such image: nosuchimage" in done.stdout.lower()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("spec --step busybox", "unknown flag: --step"),
        ("spec --snapshots busybox", "unknown flag: --snapshots"),
        ("spec -b . busybox", "--bundle: no effect with an image"),
        ("spec --gpus 0", "--gpus: no effect without an image"),
        ("gpu ps --gpu-driver simulated", "unknown flag: --gpu-driver"),
        ("gpu ps 0", '"minirun gpu ps" needs no argument, got 1'),
        ("gpu list 0", '"minirun gpu list" needs no argument, got 1'),
    ],
)
def test_what_would_have_no_effect(minirun: Program, words: str, text: str) -> None:
    done = minirun(*words.split())
    assert done.returncode != 0 and done.stdout == ""
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
