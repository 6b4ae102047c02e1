"""Part B of the list: the host's interpreter, what it opens, and what it has open."""

import hashlib
import json
import os
import re
import shutil
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from apart import apart, mounts
from conftest import Program, wait_until
from minirun.core.kernel.architecture import NATIVE
from minirun.faces.teach import strace
from minirun.faces.teach.oracle import compare, witness
from security.conftest import NAME, Evil

PYTHON = Path(sys.executable).resolve()
LOADER = NATIVE.loader


@pytest.fixture(autouse=True)
def _interpreter_untouched() -> Iterator[None]:
    """The host's interpreter is the same file, with the same content, after each test."""
    before = (PYTHON.stat().st_ino, hashlib.sha256(PYTHON.read_bytes()).digest())
    yield
    assert (PYTHON.stat().st_ino, hashlib.sha256(PYTHON.read_bytes()).digest()) == before


@pytest.mark.parametrize("kind", ["link", "script", "script of a script", "argument"])
def test_cve_2019_5736_the_command_is_the_runtime(evil: Evil, kind: str) -> None:
    """The command is /proc/self/exe: nothing of the host is executed, and nothing answers.

    The image brings the loader that the interpreter asks for, and has it print what it loads.
    """
    shutil.copy(LOADER, evil.layer / "ld.so")
    evil.write(LOADER, "")
    (evil.layer / "ld.so").replace(evil.layer / LOADER.lstrip("/"))
    evil.config["process"]["env"].append("LD_TRACE_LOADED_OBJECTS=1")
    evil.link("/exe", "/proc/self/exe")
    evil.write("/script", "#!/proc/self/exe\nimport os; print('python of the host')\n")
    evil.write("/again", "#!/script\n")
    command = {
        "link": ("/exe", "-c", "print('python of the host')"),
        "script": ("/script",),
        "script of a script": ("/again",),
        "argument": ("/proc/self/exe", "-c", "print('python of the host')"),
    }[kind]
    done = evil.run(*command)
    assert "python of the host" not in done.stdout
    assert "libc.so.6" not in done.stdout
    assert done.returncode in (126, 127), done


def test_cve_2019_5736_the_command_writes_to_pid_1(evil: Evil) -> None:
    """From inside, no /proc/PID/exe is the interpreter, and none can be opened for writing."""
    script = "for exe in /proc/*/exe; do readlink $exe; (: >>$exe) && echo WRITTEN; done"
    evil.config["process"]["capabilities"] = _all_capabilities()
    done = evil.run("sh", "-c", f"{script}; true")
    assert "WRITTEN" not in done.stdout
    assert "python" not in done.stdout
    assert "/bin/busybox" in done.stdout


def _all_capabilities() -> dict[str, list[str]]:
    from minirun.core.process.caps import NUMBERS

    return {kind: [*NUMBERS] for kind in ("bounding", "effective", "permitted")}


ATTACK = """
while :; do  # often: a newcomer is there for a millisecond
  ls -l /proc/[0-9]*/exe | sed -n 's/.* -> /exe /p' | grep -v '^exe /bin/'
done 2>/dev/null >>/out/said &
while :; do
  for p in /proc/[0-9]*; do
    exe=$(readlink $p/exe)
    case $exe in
      /bin/*|'') ;;
      *) echo "exe $exe"; (: >>$p/exe) 2>/dev/null && echo WRITTEN;;
    esac
    for fd in $p/fd/*; do
      link=$(readlink $fd)
      case $link in
        *cgroup*|*state.json*|*.fifo) echo "fd $link";;
      esac
    done
  done
done 2>/dev/null >>/out/said
"""


@pytest.mark.parametrize("capabilities", [(), ("--cap-add", "ALL")], ids=["default", "all"])
def test_cve_2016_9962_exec_into_a_hostile_container(
    minirun: Program, tmp_path: Path, capabilities: tuple[str, ...]
) -> None:
    """A newcomer can be seen; its interpreter cannot be written, nor its descriptors reached.

    Also CVE-2019-5736. With all capabilities, CAP_SYS_PTRACE among them, the container may look;
    even then the interpreter lies on a read-only mount, and no directory of the host is open.
    """
    (tmp_path / "out").mkdir()
    flags = ("-d", "--name", NAME, "-v", f"{tmp_path}/out:/out", *capabilities)
    assert minirun("run", *flags, "busybox", "sh", "-c", ATTACK).returncode == 0
    said = tmp_path / "out" / "said"
    wait_until(said.exists)
    (tmp_path / "callers.fifo").touch()
    careless = os.open(tmp_path / "callers.fifo", os.O_RDWR)
    for number in range(300):
        done = minirun("exec", NAME, "sh", "-c", "exit 4", pass_fds=(careless,))
        assert (done.returncode, done.stderr) == (4, "")
        if number >= 24 and (not capabilities or "exe /\n" in said.read_text()):
            break  # it is seen by chance: a busy container looks seldom
    os.close(careless)
    text = said.read_text()
    assert "WRITTEN" not in text
    assert "fd " not in text
    if capabilities:
        assert "exe /\n" in text  # the interpreter, on a mount that hangs nowhere
    else:  # after its exec it may be seen: as 200 sealed bytes
        assert set(text.splitlines()) <= {"exe /memfd:minirun:exec (deleted)"}


def test_cve_2016_9962_the_newcomer_is_not_dumpable(minirun: Program, tmp_path: Path) -> None:
    """The joiner gives up being dumpable before it enters, as the log has it."""
    minirun("run", "-d", "--name", NAME, "busybox", "sleep", "100")
    count = len(minirun.events(NAME))
    minirun("exec", NAME, "true")
    calls = [f"{event['name']} {event['args']}" for event in minirun.events(NAME)[count:]]
    entered = next(at for at, call in enumerate(calls) if call.startswith("setns"))
    dumpable = "prctl {'option': 'PR_SET_DUMPABLE', 'arg2': 0, 'arg3': 0}"
    assert dumpable in calls[:entered]


@pytest.mark.parametrize("number", range(3, 32))
def test_cve_2024_21626_working_directory_through_a_descriptor(evil: Evil, number: int) -> None:
    evil.config["process"]["cwd"] = f"/proc/self/fd/{number}"
    line = evil.refused("sh", "-c", "pwd; ls -a")
    assert "fd" in line


def test_cve_2024_21626_no_descriptor_is_left(minirun: Program, tmp_path: Path) -> None:
    """Neither the runtime's nor those of a careless caller."""
    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    file = os.open("/etc/passwd", os.O_RDONLY)
    script = "ls /proc/self/fd; exec ls -l /proc/1/fd"
    for flags in (("--rm",), ("--name", NAME)):
        argv = ("run", *flags, "busybox", "sh", "-c", script)
        done = minirun(*argv, pass_fds=(directory, file))
        numbers = done.stdout.partition("total")[0].split()
        assert numbers == ["0", "1", "2", "3"], done  # 3 is the directory that ls lists
        assert str(tmp_path) not in done.stdout
        assert "passwd" not in done.stdout
    minirun("run", "-d", "--name", f"{NAME}-x", "busybox", "sleep", "100")
    argv = ("exec", f"{NAME}-x", "sh", "-c", script)
    done = minirun(*argv, pass_fds=(directory, file))
    numbers = done.stdout.partition("total")[0].split()
    assert numbers == ["0", "1", "2", "3"], done
    os.close(directory)
    os.close(file)


MODULES = (
    "encodings",
    "codecs",
    "os",
    "idna",
    "traceback",
    "linecache",
    "pwd",
    "socket",
    "minirun",
)


@pytest.fixture
def trap(evil: Evil) -> Evil:
    """An image that leaves a mark when the interpreter loads anything of it."""
    code = "open('/LOADED', 'w').write(__file__)\n"
    places = ["/usr/lib/python3.11", "/usr/lib/python3/dist-packages", "/usr/local/lib/python3.11"]
    places += [sysconfig.get_path("platlib"), str(Path(__file__).parents[2]), "/", "/root", "/tmp"]
    for place in places:
        for module in MODULES:
            evil.write(f"{place}/{module}.py", code)
            evil.write(f"{place}/{module}/__init__.py", code)
    for name in ("ascii", "latin_1", "idna", "utf_8", "cp437"):
        evil.write(f"/usr/lib/python3.11/encodings/{name}.py", code)
    for name in ("libnss_files.so.2", "libc.so.6", "libseccomp.so.2", "libnss_x.so.2"):
        evil.write(f"/lib/{NATIVE.triplet}/{name}", "not a library")
    evil.write("/etc/nsswitch.conf", "passwd: x files\n")
    evil.write("/etc/ld.so.preload", f"/lib/{NATIVE.triplet}/libc.so.6\n")
    return evil


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"args": ["/nosuch\udce4"]},
        {"args": ["nosuch", "ä\u0661"]},
        {"cwd": "/etc/passwd"},
        {"user": {"uid": 4_000_000_000, "gid": 4_000_000_000, "additionalGids": [7]}},
        {"capabilities": {"bounding": ["CAP_NOSUCH"]}},
        {"rlimits": [{"type": "RLIMIT_NOFILE", "soft": 1 << 40, "hard": 1 << 40}]},
        {"args": ["/"]},
    ],
    ids=lambda change: next(iter(change), "fine"),
)
def test_cve_2019_14271_code_of_the_image_is_not_loaded(
    trap: Evil, change: dict[str, object]
) -> None:
    """Also CVE-2026-41567. Neither when all goes well nor on the way of any error."""
    trap.config["process"] |= change
    trap.run()
    assert not (trap.layer / "LOADED").exists()


def test_cve_2019_14271_strace_sees_nothing_opened(trap: Evil, tmp_path: Path) -> None:
    """After pivot_root init opens /proc, /sys and /dev paths of its own, and nothing to load."""
    trap.config["process"]["args"] = ["true"]
    trap.config["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW"}
    output = tmp_path / "strace.out"
    argv = trap.minirun.argv("run", "--bundle", str(trap.save()), NAME)
    calls = (*compare.TRACED, "open", "openat2", "stat", "newfstatat", "access", "readlink", "mmap")
    watched = witness.watch(argv, output, calls=calls)
    assert watched.status == 0
    lines = strace.parse(watched.text)
    pivot = next(at for at, call in enumerate(lines) if call.name == "pivot_root")
    init = lines[pivot].pid
    after = [call for call in lines[pivot:] if call.pid == init]
    end = next(at for at, call in enumerate(after) if "execve" in call.name)
    opened = [str(call) for call in after[:end] if call.name.startswith(("open", "mmap"))]
    assert any("proc/keys" in line for line in opened)
    loading = re.compile(r"\.py|\.so|/lib|python|nss|locale|gconv|zoneinfo|PROT_EXEC")
    assert [line for line in opened if loading.search(line)] == []
    looked = [str(call) for call in after[:end] if "stat" in call.name]
    assert [line for line in looked if loading.search(line)] == []


def test_the_environment_of_the_caller_stays_outside(minirun: Program) -> None:
    secret = {"AWS_SECRET": "swordfish", "LD_PRELOAD": "", "PYTHONPATH": "/x", "MINIRUN_X": "y"}
    done = minirun("run", "--rm", "--name", NAME, "busybox", "cat", "/proc/1/environ", env=secret)
    names = {entry.partition("=")[0] for entry in done.stdout.split("\0") if entry}
    assert names == {"PATH", "HOSTNAME", "HOME"}
    minirun("run", "-d", "--name", NAME, "busybox", "sleep", "100", env=secret)
    done = minirun("exec", NAME, "sh", "-c", "cat /proc/*/environ; cat /proc/*/cmdline", env=secret)
    assert "swordfish" not in done.stdout
    assert "minirun" not in done.stdout.replace("minirun-", "").replace(NAME, "")
    state = minirun.directory(NAME)
    for path in (p for p in state.iterdir() if p.is_file()):
        assert "swordfish" not in path.read_text(), path


def test_the_memory_of_the_runtime_stays_outside(evil: Evil) -> None:
    """With all capabilities, pid 1's memory holds nothing of the interpreter it once was."""
    evil.config["process"]["capabilities"] = _all_capabilities()
    done = evil.run("cat", "/proc/self/maps", "/proc/self/environ", "/proc/self/auxv")
    assert "python" not in done.stdout
    assert str(PYTHON) not in done.stdout
    assert done.returncode == 0


def test_cve_2015_3630_what_pid_1_shows(minirun: Program) -> None:
    """Nothing of the host in its mounts, its root, its working directory and its arguments."""
    script = (
        "cat /proc/1/mountinfo /proc/1/mounts; ls -l /proc/1/cwd /proc/1/root; cat /proc/1/cgroup"
    )
    done = minirun("run", "--rm", "--name", NAME, "busybox", "sh", "-c", script)
    outside = [line for line in done.stdout.splitlines() if " - " in line]
    assert len(outside) > 10
    roots = {line.split()[4] for line in outside}
    files = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}  # its own, and docker's mounts too
    assert all(
        path == "/" or path.startswith(("/proc", "/dev", "/sys")) for path in roots - files
    ), roots
    assert "(deleted)" not in done.stdout
    cgroups = [line for line in done.stdout.splitlines() if re.match(r"\d+:[^ ]*:", line)]
    assert cgroups
    assert all(line.endswith(":/") for line in cgroups), cgroups


def test_cve_2020_15257_no_abstract_socket(minirun: Program) -> None:
    def abstract() -> set[str]:
        rows = Path("/proc/net/unix").read_text().splitlines()
        return {row.split()[-1] for row in rows if row.split()[-1].startswith("@")}

    before = abstract()
    minirun("run", "-d", "-t", "--name", NAME, "busybox", "sleep", "100")
    assert {name for name in abstract() - before if "minirun" in name} == set()


def test_cve_2021_43784_long_data_is_not_cut(evil: Evil) -> None:
    """Lengths beyond 16 bits, and beyond what a pipe holds, neither overflow nor block."""
    text = "x" * 120_000
    evil.config["process"]["env"] += [f"LONG={text}", *(f"A{n}={'y' * 1000}" for n in range(500))]
    done = evil.run("sh", "-c", "echo ${#LONG}", timeout=20)
    assert (done.returncode, done.stdout) == (0, "120000\n")
    line = evil.run("/" + "z" * 100_000, timeout=20)
    assert line.returncode == 1
    assert line.stderr.count("\n") == 1
    assert len(line.stderr) < 10_000


def test_exec_during_the_whole_life(minirun: Program) -> None:
    """A sealed interpreter is started anew for each exec: it does not pile up mounts."""
    minirun("run", "-d", "--name", NAME, "busybox", "sleep", "100")
    with apart("mount"):
        before = mounts()
        for _ in range(3):
            minirun("exec", NAME, "true")
        assert mounts() == before
    started = time.monotonic()
    assert minirun("exec", NAME, "nosuch").returncode == 127
    assert time.monotonic() - started < 5


def test_json_of_the_state_is_private(minirun: Program) -> None:
    """CVE-2024-25621 and CVE-2021-41091: who is not root cannot look into a container's state."""
    minirun("run", "-d", "--name", NAME, "-e", "SECRET=x", "busybox", "sleep", "100")
    state = minirun.directory(NAME)
    assert minirun.root.stat().st_mode & 0o777 == 0o711
    assert state.stat().st_mode & 0o777 == 0o700
    for path in state.iterdir():
        mode = path.lstat().st_mode
        assert not mode & 0o022, path
        if path.is_file():
            assert mode & 0o777 == 0o600, path
    assert json.loads((state / "state.json").read_text())["id"] == minirun.id(NAME)
    minirun("delete", "--force", NAME)
    assert (minirun.root / ".history").stat().st_mode & 0o777 == 0o700
