"""What every test works with: the program itself, a state root of its own, and a leak check.

The program is called as users call it, in a process of its own. Images come from the shared store
(`make test` builds busybox and debian there). Containers go where a user has them, in a cell of the
test's own, or below its tmp_path: `--defaults`, in defaults.py. A test that must name a root has
the mark `root`; one with a store of its own has minirun `at` it.

A test lies where what it tests lies in minirun/: core/process/test_caps.py tests
minirun/core/process/caps.py. engines/clients/ has the real podman, containerd, docker … besides.
Some folders are about the whole program:
  spec         the runtime-spec, property by property        conformance  OCI's own programs
  truth        the log against strace, in both directions    setup        packages, pip, Debians
  security     what a hostile image or container may try     bench        how long a start takes
  fuzz         broken configurations, images, recordings     data         what test_rings.py holds
  bats         runc's own tests, beside runc                 tutorials    the lessons' commands
  publish      tutorials/publish: site, reference …          notebooks    the lessons in a kernel
Helpers are imported from here: `from gpu.sandbox import …`. No folder has an __init__.py: with one,
tests/faces/inspect would hide Python's own module.
"""

from __future__ import annotations

import gc
import glob
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import defaults
import night  # noqa: F401  how many examples hypothesis tries
from faces.show.browser import Browser
from layers import STORE, copy_layer, layer_of
from minirun.cgroups import hierarchies
from minirun.core.keeping.places import ROOT
from minirun.core.kernel import mountinfo
from minirun.fast import launcher
from minirun.image import store
from program import Program, roots_of
from required import installed, skip
from rootfs_tools import catalogue

# grpcio, once used, would start its threads anew in each fork: what is forked here calls setns(2).
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
# What the caller's shell sets for runs of their own: no test writes into their state root.
for _name in ("ROOT", "STORE", "LOG", "GATES", "SIM"):
    os.environ.pop(f"MINIRUN_{_name}", None)
# Tests share the host's network namespace: those of net/ have one of their own, and ask for more.
os.environ["MINIRUN_NETWORK"] = "none"

VERSION_2_ALONE = (
    "unshare", "--mount", "--propagation", "private", "sh", "-ec",
    'umount -R /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup; exec "$@"', "sh",
)  # fmt: skip
"""Words before a command: it sees cgroup version 2 alone, as where systemd has started. Where this
machine keeps the controllers in version 1's trees there are none to limit with."""


def pytest_configure(config: pytest.Config) -> None:
    if os.geteuid() != 0:
        pytest.exit("the tests make real containers: run them as root", returncode=2)
    _heed_signals()
    is_controller = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    runs_defaults = config.option.defaults != "none" and not is_controller
    config.stash[_cells] = defaults.DefaultCells() if runs_defaults else None


def pytest_unconfigure(config: pytest.Config) -> None:
    if cells := config.stash.get(_cells, None):
        cells.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--defaults", choices=defaults.CHOICES, default="half",
        help="the files of tests whose minirun is told neither a root nor a store",
    )  # fmt: skip
    parser.addoption(
        "--peers", choices=("kept", "run", "keep"), default="kept",
        help="minirun beside kept answers of runc and docker, beside both, or to keep theirs anew",
    )  # fmt: skip


_cells = pytest.StashKey[defaults.DefaultCells | None]()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Find the tests without looking for garbage, and never look for any among them.

    11,000 tests stay to the end; gc would go through all of them again and again, here and later.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def _heed_signals() -> None:
    """Undo what nohup and a shell's background ignore: what is started here would inherit it."""
    usual = {signal.SIGHUP: signal.SIG_DFL, signal.SIGQUIT: signal.SIG_DFL}
    for number, handler in {**usual, signal.SIGINT: signal.default_int_handler}.items():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)


def _signals() -> dict[str, object]:
    """Return what is blocked, and each signal's handler: pytest-timeout has SIGALRM."""
    numbers = signal.valid_signals() - {signal.SIGALRM}
    handlers = {str(number): signal.getsignal(number) for number in numbers}
    return {"blocked": signal.pthread_sigmask(signal.SIG_BLOCK, ()), **handlers}


@pytest.fixture(autouse=True)
def _signals_stay() -> Iterator[None]:
    """A later test forks from this process: what it starts has the signals that it finds here."""
    before = _signals()
    yield
    assert _signals() == before


@pytest.fixture(autouse=True)
def _roots_are_forgotten(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """A state root below this test's tmp_path is in the store's list of roots only during it."""
    yield
    name = re.sub(r"\W", "_", request.node.name)[:30]  # as pytest calls the folder
    own = f"{tmp_path_factory.getbasetemp()}/{name}"
    left = {entry: root for entry, root in roots_of(STORE) if root.startswith(own)}
    for entry in left:
        os.unlink(entry)
    assert left == {}, "forget_root() is for it"


@pytest.fixture(scope="session")
def command(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The fast launcher, as `make setup` installs it."""
    path = tmp_path_factory.mktemp("bin") / "minirun"
    launcher.install(str(path))
    return str(path)


@pytest.fixture(autouse=True)
def by_default(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[bool]:
    """True in a cell, for a test whose minirun is told no root: tests/defaults.py."""
    cells = request.config.stash[_cells]
    file = request.node.nodeid.partition("::")[0]
    calls_it = not _PROGRAMS.isdisjoint(request.fixturenames)
    is_chosen = defaults.chosen(request.config.option.defaults, file)
    if not (cells and calls_it and is_chosen) or request.node.get_closest_marker("root"):
        yield False
    else:
        folder = tmp_path_factory.mktemp("cell")
        with cells.one(folder):
            yield True
        shutil.rmtree(folder)


_PROGRAMS = {"minirun", "reachable", "minirun_both"}


@pytest.fixture
def minirun(command: str, tmp_path: Path, by_default: bool) -> Iterator[Program]:
    """The program, with containers below this test's tmp_path, or where a user has them."""
    program = Program(command, None if by_default else tmp_path / "containers")
    yield program
    program.clean()


@pytest.fixture
def reachable(command: str, by_default: bool) -> Iterator[Program]:
    """Its containers the root of a user namespace can reach, unlike those below tmp_path."""
    directory = Path(tempfile.mkdtemp(prefix="minirun-test."))
    directory.chmod(0o711)
    program = Program(command, None if by_default else directory / "containers")
    yield program
    program.clean()
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def copied() -> Iterator[Path]:
    """A copy of the package that everybody may read, as an installed one is."""
    directory = Path(tempfile.mkdtemp(prefix="minirun-test."))
    directory.chmod(0o755)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(launcher.__file__).parents[1], directory / "minirun", ignore=ignored)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(params=["v1", "v2"])
def minirun_both(
    request: pytest.FixtureRequest, command: str, tmp_path: Path, by_default: bool
) -> Iterator[Program]:
    """The program on cgroup v1 and on cgroup2; skipped where one is not mounted."""
    kind = {"v1": "cgroup", "v2": "cgroup2"}[request.param]
    mounted = {line.split()[2] for line in Path("/proc/mounts").read_text().splitlines()}
    if kind not in mounted:
        skip(f"no {kind} file system is mounted on this machine")
    root = None if by_default else tmp_path / "containers"
    program = Program(command, root, "--cgroup", request.param)
    yield program
    program.clean()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser for the tests of a module."""
    installed("chromium")
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture
def nodes_path(tmp_path: Path) -> Iterator[Path]:
    """A folder whose device nodes can be opened. /tmp may be mounted nodev, as systemd does it."""
    path = tmp_path / "nodes"
    path.mkdir()
    if not os.statvfs(path).f_flag & os.ST_NODEV:
        yield path
        return
    subprocess.run(["mount", "-t", "tmpfs", "none", path], check=True)
    yield path
    subprocess.run(["umount", path], check=True)


def cgroup(program: Program, container_id: str) -> str:
    """The directory of a container's cgroup: version 1's for pids, or version 2's."""
    dirs = json.loads(program("inspect", "--json", container_id).stdout)["cgroup"]["dirs"]
    return str(dirs.get("pids") or dirs[""])


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait for a condition, or fail."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def descendants(pid: int) -> list[int]:
    """A process, and those below it: a tree that grows and shrinks while it is read."""
    found = [pid]
    for each in found:
        with suppress(OSError):  # it has ended
            children = Path(f"/proc/{each}/task/{each}/children").read_text()
            found += map(int, children.split())
    return found


def killed(*pids: int) -> None:
    """End processes by SIGKILL, all at once; return when the kernel says that they have ended."""
    fds = [os.pidfd_open(pid) for pid in pids]
    for fd in fds:
        signal.pidfd_send_signal(fd, signal.SIGKILL)
    for fd in fds:
        assert select.select([fd], [], [], 10)[0], "it does not end"
        os.close(fd)


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """A copy of busybox's root filesystem that a test may spoil."""
    return copy_layer(layer_of("busybox"), tmp_path / "rootfs")


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """A shared mount with another one below it."""
    place = tmp_path / "shared"
    (place / "below").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], check=True)
    subprocess.run(["mount", "--make-shared", str(place)], check=True)
    (place / "below").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(place / "below")], check=True)
    yield place
    subprocess.run(["umount", "-R", str(place)], check=True)


# --- the leak check: after all tests, in the one process that is not a worker ------------------


def _mounts() -> set[str]:
    return {f"{m.mount_point} {m.options} {m.fs_type} {m.super_options}" for m in mountinfo.read()}


def _cgroups() -> set[str]:
    names = ("minirun/*", "minirun-*")
    found = [glob.glob(f"{each.path}/{name}") for each in hierarchies.mounted() for name in names]
    return {path for paths in found for path in paths if os.path.isdir(path)}


def processes() -> Iterator[tuple[int, str, list[str]]]:
    """Yield each process's pid, name, and fields from the third (its state) on: proc_pid_stat(5).

    One may end at any moment. Path.glob would not do: between its listing and its look at the file
    that is ESRCH, which it does not pass over.
    """
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            left, _, right = Path("/proc", pid, "stat").read_text(errors="replace").rpartition(")")
        except OSError:
            continue
        yield int(pid), left.partition("(")[2], right.split()


def _processes() -> set[str]:
    return {
        f"{pid} {name}"
        for pid, name, (state, *_) in processes()
        if name.startswith("minirun:") and state != "Z"  # a zombie waits for pid 1, not for us
    }


def _links() -> set[str]:
    return set(os.listdir("/sys/class/net"))


def _images() -> set[str]:
    """The images that are not what was stored: no container, and no test, may write into them."""
    names = [f"{row['name']}:{row['tag']}" for row in store.list_images(STORE)]
    faults = {name: catalogue.verify(STORE, name) for name in names}
    return {f"{name} {fault}" for name, fault in faults.items() if fault}


def _containers() -> set[str]:
    """The containers of the state root that engines, who choose none, work with."""
    return {str(path) for path in Path(ROOT).glob("[!.]*")}


def _roots() -> set[str]:
    """The state roots that the store knows of; of one that is gone the next command lets go."""
    return {f"{entry} -> {root}" for entry, root in roots_of(STORE) if os.path.isdir(root)}


def _devices() -> set[str]:
    """The owner and mode of nodes that all of this machine uses: an engine may change them."""
    found = [(path, os.stat(path)) for path in ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty")]
    return {f"{path} {s.st_uid}:{s.st_gid} {s.st_mode:o}" for path, s in found}


_SNAPSHOTS = {
    "mount": _mounts, "cgroup": _cgroups, "process": _processes, "link": _links, "image": _images,
    "container": _containers, "root": _roots, "device": _devices,
}  # fmt: skip


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        session.stash[_before] = {kind: take() for kind, take in _SNAPSHOTS.items()}


_before = pytest.StashKey[dict[str, set[str]]]()


def _leaks(before: dict[str, set[str]]) -> set[str]:
    return {
        f"{kind} left behind: {thing}"
        for kind, take in _SNAPSHOTS.items()
        for thing in take() - before[kind]
    }


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table of what engines' users do, with runc below and with minirun below."""
    import beside
    from engines.clients import answers, scenario

    reports = [report for rows in terminalreporter.stats.values() for report in rows]
    calls = [report for report in reports if getattr(report, "when", "") == "call"]
    told = [dict(report.user_properties) for report in calls]
    how = terminalreporter.config.option.peers
    if how == "keep" and (asked := [row for each in told for row in each.get("docker", ())]):
        option = terminalreporter.config.option
        part = option.keyword or any("::" in word for word in terminalreporter.config.args)
        beside.write(((tuple(question), answer) for question, answer in asked), whole=not part)
    found = [each.get("client") for each in told]
    if not (rows := [row for row in found if row and row[0] in answers.CLIENTS]):
        return
    if how == "keep":
        answers.write(installed("runc"), [(client, name, runc) for client, name, runc, _ in rows])
    which = f", whose answers are kept ones of {answers.read()[0]}" if how == "kept" else ""
    terminalreporter.section(f"engines, and runc{which}")
    terminalreporter.write_line("\n".join(scenario.table(rows)))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput"):
        return
    before = session.stash[_before]
    deadline = time.monotonic() + 3  # what has been killed may take a moment to end
    leaks = _leaks(before)
    while leaks and time.monotonic() < deadline:
        time.sleep(0.1)
        leaks &= _leaks(before)  # what is new at a later look is another run's
    if leaks:
        sys.stderr.write("\n" + "\n".join(sorted(leaks)) + "\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
