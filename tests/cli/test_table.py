"""The table of commands, and what the hot path may import."""

import ast
import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

import minirun as package
import rootfs_tools
from cli.columns import Called, Runtime
from conftest import Program, wait_until
from core.lifecycle.leftovers import Family, assert_nothing
from minirun import __version__
from minirun.cli import COMMANDS, GlobalFlags, entry_of
from minirun.cli.help import COMMANDS as COMMAND_TEXTS
from minirun.cli.run.run_flags import RunFlags
from minirun.cli.run.run_options import READERS
from minirun.gpu import drivers
from minirun.gpu.vendors.signs import OTHER_VENDORS

SOURCE = Path(package.__file__).parent
SPEC = "spec: 1.3.0"
HOST_NAME = ("run", "spec")
"""Commands in which -h is --hostname, as it is in docker run."""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_module_and_help(called: Called, tmp_path: Path, name: str) -> None:
    assert callable(entry_of(name, COMMANDS))
    flags = ("--help",) if name in HOST_NAME else ("--help", "-h")
    for flag in flags:
        done = called(name, flag)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"Usage: minirun {name} [flags]")
        assert "--help" in done.stdout
    assert not (tmp_path / "containers").exists(), "help touches nothing"


@pytest.mark.parametrize("words", [("run", "--help"), ("images", "-h"), ("ps", "--nosuchflag")])
def test_the_program_is_what_is_called(
    minirun: Program, called: Called, words: tuple[str, ...]
) -> None:
    """In a process of its own, with and without a launcher, it prints and ends as in this one."""
    outcomes = [(d.returncode, d.stdout, d.stderr) for d in (minirun(*words), called(*words))]
    plain = [sys.executable, "-m", package.__name__, *words]
    done = subprocess.run(plain, capture_output=True, text=True, check=False)
    assert [*outcomes, (done.returncode, done.stdout, done.stderr)] == [outcomes[0]] * 3
    assert not minirun.root.exists()


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("name", ["run", "teach", ""])
def test_help_on_a_terminal_is_folded_between_words(
    minirun: Program, name: str, columns: int
) -> None:
    main, worker = pty.openpty()
    termios.tcsetwinsize(worker, (24, columns))
    argv = minirun.argv(*filter(None, (name, "--help")))
    done = subprocess.Popen(argv, stdout=worker, env=os.environ | {"NO_COLOR": "1"})
    os.close(worker)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: the end
        while chunk := os.read(main, 4096):
            shown += chunk
    os.close(main)
    assert done.wait() == 0
    assert shown.split() == minirun(*filter(None, (name, "--help"))).stdout.encode().split()
    assert max(map(len, shown.decode().splitlines())) <= columns


def test_each_flag_of_a_reader_is_one_of_run() -> None:
    assert set().union(*READERS.values()) <= RunFlags.known().keys()


OTHER_RULES = {"nvidia-container-runtime", "nvidia-container-cli", "nvidia-cdi-hook"}


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - OTHER_RULES))
def test_an_unknown_flag_is_one_line(called: Called, name: str) -> None:
    done = called(name, "--nosuchflag")
    assert done.returncode != 0
    assert done.stderr.startswith("minirun: unknown flag: --nosuchflag")
    assert done.stderr.count("\n") == 1


def test_the_overview_names_every_command_and_global_flag(minirun: Program) -> None:
    done = minirun("--help")
    assert done.returncode == 0
    assert minirun().stdout == done.stdout
    for name, text in COMMAND_TEXTS.items():
        assert any(line.split() == [name, *text.split()] for line in done.stdout.splitlines())
    for flag in GlobalFlags.known().values():
        assert f"{flag.names[0]} " in done.stdout


def test_version(minirun: Program) -> None:
    for flag in ("--version", "-v"):
        lines = minirun(flag).stdout.splitlines()
        assert lines[:3] == [f"minirun version {__version__}", f"commit: v{__version__}", SPEC]


@pytest.mark.parametrize(
    ("word", "hint"), [("rnu", "run"), ("deleet", "delete"), ("zzz", "--help")]
)
def test_an_unknown_command(called: Called, word: str, hint: str) -> None:
    done = called(word)
    assert done.returncode == 1
    assert done.stderr.startswith(f"minirun: unknown command '{word}'")
    assert hint in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--cgroup", "v3", "ps"), "invalid --cgroup 'v3' (auto, v1 or v2)"),
        (("--log-format", "xml", "ps"), "invalid --log-format 'xml' (text or json)"),
        (("--nosuch", "ps"), "unknown flag: --nosuch"),
        (("--root",), "flag needs an argument: --root"),
    ],
)
def test_mistakes_in_global_flags(called: Called, flags: tuple[str, ...], text: str) -> None:
    done = called(*flags)
    assert done.returncode == 1  # runc's
    assert text in done.stderr
    assert done.stderr.count("\n") == 1


def test_nobody_reads_our_help(minirun: Program) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [minirun.path, "--help"], stdout=theirs, stderr=subprocess.PIPE, check=False
    )
    os.close(theirs)
    assert done.stderr == b""
    assert done.returncode != 0


# --- the hot path ------------------------------------------------------------------------------

FORBIDDEN = frozenset(
    (
        "argparse", "json", "typing", "dataclasses", "re", "subprocess", "logging", "enum",
        "functools", "contextlib", "collections", "pathlib", "shutil", "rich", "pyroute2",
        "socket", "signal", "tempfile", "tomllib", "traceback", "inspect",
    )
)  # fmt: skip
SPY = """
import os, sys
spied = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
def spy(event, args):
    if event == "import":
        os.write(spied, (args[0] + "\\n").encode())
sys.addaudithook(spy)
before = set(sys.modules)
sys.path[:0] = sys.argv[2:5]
del sys.argv[1:5]
from minirun import cli
code = cli.main()
os.write(spied, "".join(name + "\\n" for name in set(sys.modules) - before).encode())
os._exit(code)
"""
"""Runs the command line and writes down what is imported, in all processes that come from it:
the audit hook of an interpreter goes along with fork and clone."""


def alone(program: Program) -> list[str]:
    """Return how the command line begins in an interpreter that finds minirun, and no workshop."""
    code = "import sys; sys.path[:0] = [sys.argv.pop(1)]; "
    code += "from minirun import cli; sys.exit(cli.main())"
    argv = [os.path.realpath(sys.executable), "-IS", "-c", code, str(SOURCE.parent)]
    return [*argv, *program.argv()[1:]]


def test_without_the_workshop(minirun: Program) -> None:
    """A container of a local image needs nothing of it; a command for images says what to do."""
    argv = alone(minirun)
    done = subprocess.run([*argv, "images"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr == (
        "minirun: what handles images is not installed "
        "(pip install . in the clone, or PYTHONPATH=rootfs-tools)\n"
    )
    run = [*argv, "run", "--rm", "busybox", "echo", "hello"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_gc_without_the_workshop(minirun: Program) -> None:
    """It removes what is minirun's own, and passes over only what is the workshop's."""
    name = f"watched-{os.getpid()}"
    minirun("run", "-d", "--rm", "--name", name, "busybox", "sleep", "600")
    record = json.loads((minirun.directory(name) / "state.json").read_text())
    family = Family(record["supervisor"]["pid"])
    os.kill(record["supervisor"]["pid"], signal.SIGKILL)
    wait_until(lambda: len(family.alive()) == 1)
    done = subprocess.run([*alone(minirun), "gc"], capture_output=True, text=True, check=False)
    assert done.stdout == f"removed {name}: its supervisor died\n", done.stderr
    assert (done.returncode, done.stderr) == (
        0,
        "minirun: warning: images that were never finished are not looked for: what handles images "
        "is not installed (pip install . in the clone, or PYTHONPATH=rootfs-tools)\n",
    )
    assert_nothing(minirun, name, family)


def imports(program: Program, tmp_path: Path, *args: str, cwd: Path | None = None) -> set[str]:
    """Run a command line in a bare interpreter; return the names of all modules imported."""
    spied = tmp_path / "imports"
    packages = str(Path(sys.prefix, "lib", f"python3.{sys.version_info.minor}", "site-packages"))
    argv = [os.path.realpath(sys.executable), "-IS", "-c", SPY]
    argv += [str(spied), str(SOURCE.parent), str(SOURCE.parent / "rootfs-tools"), packages]
    argv += program.argv(*args)[1:]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr
    found = set(spied.read_text().split())
    spied.unlink()
    return found


@pytest.mark.parametrize(
    "flags",
    [
        "--rm",
        "",
        "-d",
        "--rm -i",
        "--rm -e A=1 -v /etc:/mnt:ro -w /tmp --hostname h --read-only --name n-{pid}",
        "--rm --env-file /dev/null --ulimit nofile=99 --tmpfs /x --mount type=bind,src=/etc,dst=/y",
        "--rm --network host",
        "--rm --memory 64m --cpus 1 --pids-limit 20 --annotation a=b",
        "--rm -u 1000:1000 --cap-add NET_ADMIN --cap-drop ALL --device /dev/null:/dev/x",
        "--rm -u nobody",
        "--rm --uidmap 0:100000:65536",
        "--rm --gpus 0,1 --gpu-driver simulated",
    ],
)
def test_run_imports_nothing_that_costs(reachable: Program, tmp_path: Path, flags: str) -> None:
    found = imports(
        reachable, tmp_path, "run", *flags.format(pid=os.getpid()).split(), "busybox", "true"
    )
    assert "minirun.core.lifecycle" in found, "the spy sees what is imported"
    assert not {name for name in found if name.split(".")[0] in FORBIDDEN}


def test_a_bundle_is_run_without_them_too(minirun: Program, tmp_path: Path, layer: Path) -> None:
    spec = minirun("spec", "busybox", "true").stdout
    assert layer.name == "rootfs"
    (tmp_path / "config.json").write_text(spec)
    found = imports(minirun, tmp_path, "run", "--bundle", str(tmp_path), f"b-{os.getpid()}")
    assert not {name for name in found if name.split(".")[0] in FORBIDDEN}
    for words in ((), ("-d",), ("--pid-file", str(tmp_path / "pid"))):  # in its folder, as runc's
        name = f"beside-{os.getpid()}-{len(words)}"
        plain = imports(minirun, tmp_path, "run", *words, name, cwd=tmp_path)
        assert not {name for name in plain if name.split(".")[0] in FORBIDDEN}
        more = {name for name in plain - found if name.startswith("rootfs_tools")}
        assert more <= {"rootfs_tools", "rootfs_tools.recipe"}, "no image has that name"


@pytest.mark.parametrize("asked", ["--gpus 0,1 --gpu-mode cdi", "--device example.com/thing=a"])
def test_cdi_imports_nothing_that_costs(minirun: Program, tmp_path: Path, asked: str) -> None:
    edits = '{"name": "a", "containerEdits": {"env": ["A=1"]}}'
    document = f'{{"cdiVersion": "0.5.0", "kind": "example.com/thing", "devices": [{edits}]}}'
    (tmp_path / "thing.json").write_text(document)
    flags = ("--cdi-spec-dir", str(tmp_path), "--gpu-driver", "simulated")
    found = imports(minirun, tmp_path, "spec", *flags, *asked.split(), "busybox", "true")
    assert "minirun.gpu.cdi.inject" in found
    assert not {name for name in found if name.split(".")[0] in (*FORBIDDEN, "yaml")}


@pytest.mark.parametrize("flags", ["--gpus 0,1", "--gpus 0,1 --gpu-driver simulated"])
def test_gpus_import_nothing_of_another_vendor(
    minirun: Program, tmp_path: Path, flags: str
) -> None:
    if drivers.which_driver("auto") in OTHER_VENDORS:
        pytest.skip("this host has GPUs of another vendor")
    found = imports(minirun, tmp_path, "run", "--rm", *flags.split(), "busybox", "true")
    assert "minirun.gpu.inject" in found
    others = {n for n in found if n.startswith(("minirun.gpu.vendors.", "minirun.gpu.cdi"))}
    assert others == {"minirun.gpu.vendors.signs"}, "the table of what asks for them"


def test_the_spy_would_tell(minirun: Program, tmp_path: Path) -> None:
    assert "json" in imports(minirun, tmp_path, "images")


def test_start_state_kill_and_delete_load_no_ctypes(minirun: Program, tmp_path: Path) -> None:
    """It costs 3 ms, and engines call them for each container."""
    runtime = Runtime(minirun.argv(), tmp_path, f"light-{os.getpid()}")
    runtime.config()
    assert runtime("create", "ID").returncode == 0
    for words in ("start",), ("state",), ("kill",), ("delete", "--force"):
        found = imports(minirun, tmp_path, words[0], *words[1:], runtime.name)
        assert "ctypes" not in found, words


def imported_by(path: Path) -> set[str]:
    """The top names of all that a source file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


WORKSHOP = Path(rootfs_tools.__file__).parent
FILES = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))} | {
    path.relative_to(WORKSHOP.parent).as_posix(): path for path in sorted(WORKSHOP.rglob("*.py"))
}


OWN_CALLS = {
    "cgroups/bpf.py", "gpu/nvidia/shared/wsl.py", "gpu/owner.py",
    "rootfs_tools/durable.py", "net/__init__.py", "oci/exec/sibling.py", "oci/features.py",
    "oci/seccomp/compiler.py", "oci/seccomp/notify.py", "oci/tuning/limits.py",
    "oci/tuning/sched.py",
}  # fmt: skip
"""Outside core/kernel/: system calls, and a library, that one room alone needs."""


def test_who_imports_ctypes() -> None:
    """events is a leaf. tests/test_rings.py has the walls between the rooms."""
    tops = {
        name: {module.split(".")[0] for module in imported_by(path)} for name, path in FILES.items()
    }
    allowed = {name for name, path in FILES.items() if path.parent == SOURCE / "core/kernel"}
    assert {name for name in tops if "ctypes" in tops[name]} - allowed <= OWN_CALLS
    assert "ctypes" in tops["core/kernel/mounts.py"] and "minirun" in tops["__init__.py"]
    assert "minirun" not in tops["core/events.py"]
