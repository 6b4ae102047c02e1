"""One meaning is written once: a whole number from a text, a port, a duration.

The first half reads the source, and says which function is meant to be used; the second half gives
each reader the kin of a wrong number: none ends in a traceback.
"""

import ast
import errno
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import minirun
import rootfs_tools
from minirun.cgroups.systemd.properties import bitmap
from minirun.cli import words
from minirun.cli.run import properties, run_options
from minirun.common.schema import SchemaError
from minirun.core.errors import MinirunError
from minirun.docker import filters, network_of, stop
from minirun.engines import rootless_config
from minirun.net import ports
from minirun.oci import validate
from minirun.oci.seccomp import file
from minirun.oci.tuning import tuning
from minirun.running import moments
from minirun.toolkit.commands import checkpoint
from rootfs_tools import made
from rootfs_tools.dockerfile import chmod

TOPS = (Path(minirun.__file__).parent, Path(rootfs_tools.__file__).parent)


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Yield each module's path, below the folder of its package, and what it says."""
    for top in TOPS:
        for path in sorted(top.rglob("*.py")):
            yield path.relative_to(top.parent).as_posix(), ast.parse(path.read_text())


TREE = dict(sources())


def test_whole_numbers_have_one_reader() -> None:
    """str.isdigit is no check before int(): "²" is a digit, and int() takes 4300 digits at most."""
    asked = {
        f"{path}:{call.lineno}: {ast.unparse(call)}: minirun.core.keeping.numbers.whole instead"
        for path, module in TREE.items()
        if path != "minirun/core/keeping/numbers.py"
        for call in ast.walk(module)
        if isinstance(call, ast.Attribute) and call.attr in ("isdigit", "isdecimal", "isnumeric")
        if not isinstance(call.value, ast.Subscript)  # one character: what kind of word begins here
    }
    assert asked == set()


def imports() -> Iterator[tuple[str, str]]:
    """Yield each module, with "MODULE" or "MODULE.NAME" that it imports."""
    for path, module in TREE.items():
        for node in ast.walk(module):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((path, f"{node.module}.{alias.name}") for alias in node.names)


def test_what_is_imported_in_one_place() -> None:
    """A name that costs time, or that needs a comment, is taken from the one module that has it."""
    found = {path for path, name in imports() if name.partition(".")[0] == "_signal"}
    assert found == {"minirun/core/kernel/signals.py"}


WAITS = {
    "minirun/common/waiting.py": "the one that is meant",
    "minirun/cgroups/stopping.py": "it kills between two looks",
    "minirun/cgroups/tree.py": "its pause grows, since most cgroups are gone at once",
    "minirun/docker/restarts.py": "no deadline: the delay before the next start",
    "minirun/faces/teach/lab/checks.py": "the last answer counts, whatever it is",
    "minirun/faces/teach/oracle/witness.py": "it reads what strace writes meanwhile",
}


def test_waits_with_a_deadline_have_one_loop() -> None:
    """minirun.common.waiting.until; of a process's end minirun.core.keeping.state.has_ended."""
    found = {
        path
        for path, module in TREE.items()
        for node in ast.walk(module)
        if isinstance(node, ast.While)
        and {"time.sleep", "time.monotonic"} <= {ast.unparse(each) for each in ast.walk(node)
                                                 if isinstance(each, ast.Attribute)}
    }  # fmt: skip
    assert found == WAITS.keys()


PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def test_the_default_path_is_written_once() -> None:
    """minirun.core.config.DEFAULT_PATH: docker's, where no PATH says where programs are."""
    found = {
        path
        for path, module in TREE.items()
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and str(node.value).endswith(PATH)
        if not path.startswith("minirun/faces/teach/levels/")  # a fixture of a level
    }
    assert found == {"minirun/core/config.py"}


def test_type_checking_has_one_spelling() -> None:
    """TYPE_CHECKING = False: typing would cost 4 ms at every start."""
    found = {path for path, name in imports() if name == "typing.TYPE_CHECKING"}
    assert found == set()


def test_the_words_of_an_error_are_put_in_one_place() -> None:
    """minirun.core.errors.reason(error), as an error's text has them: in small letters."""
    found = {
        f"{path}:{node.lineno}: {ast.unparse(node)}: minirun.core.errors.reason instead"
        for path, module in TREE.items()
        if path not in ("minirun/core/errors.py", "minirun/cgroups/bpf.py")
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "os.strerror"
        if "error.errno" in ast.unparse(node)
    }
    assert found == set()


def test_an_error_of_the_kernel_has_its_name() -> None:
    """errno.ENOENT, neither 2 nor a constant of one's own; minirun.core.errors.os_error makes one.

    The module errno is built into the interpreter, and loaded by minirun.core.errors in any case.
    """
    found = set()
    for path, module in TREE.items():
        for node in ast.walk(module):
            bare = False
            if isinstance(node, ast.Compare):
                asked = ast.unparse(node.left)
                values = {type(getattr(each, "value", "")) for each in ast.walk(node)}
                bare = bool(re.search(r"\berrno(\(\))?$", asked)) and int in values
            elif isinstance(node, ast.Call) and node.args:
                is_error = ast.unparse(node.func).endswith("Error")
                bare = is_error and type(getattr(node.args[0], "value", "")) is int
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                names = {ast.unparse(name).lstrip("_") for name in node.targets}
                bare = any(getattr(errno, name, -1) == node.value.value for name in names)
            if bare:
                found.add(f"{path}:{node.lineno}: {ast.unparse(node)}")
    assert found == set()


KIN = ["", "²", "٣", "+1", "-0", "-1", "1_0", " 1", "1 ", "1\n", "0x1", "1e3", "1.", ".", "nan",
       "7", "1-", "2-1", "9" * 5000, "0" * 5000 + "7"]  # fmt: skip
READERS: dict[str, Callable[[str], object]] = {
    "-p": ports.parse,
    "-p of the host": lambda text: ports.parse(f"{text}:80"),
    "--expose": lambda text: run_options._exposed([text]),
    "--filter publish": lambda text: filters.ports("publish", text),
    "network why": lambda text: network_of._target(f"a:{text}"),
    "--page-server": lambda text: checkpoint._page_server(f"a:{text}"),
    "--device-cgroup-rule": lambda text: properties.device_rules("--x", [f"c {text}:1 r"]),
    "--cpus": lambda text: properties.cpus("--cpus", text),
    "--cpuset-cpus": lambda text: properties.cpuset("--cpuset-cpus", text),
    "--memory": words.size,
    "--interval": lambda text: words.duration(f"{text}s"),
    "--since": lambda text: moments.point(text, "--since"),
    "--since of a duration": lambda text: moments.point(f"{text}h", "--since"),
    "stop --timeout": stop.seconds_of,
    "kill": words.signal_number,
    "kill of a real-time signal": lambda text: words.signal_number(f"RTMIN+{text}"),
    "gid of a mount": lambda text: rootless_config._is_mapped(f"gid={text}", [], []),
    "ociVersion": lambda text: validate._version(f"1.{text}.0"),
    "minKernel": lambda text: file._version(f"{text}.1", "x"),
    "execCPUAffinity": lambda text: tuning.numbers(text, "x"),
    "cpuset of systemd": bitmap,
    "COPY --chmod": chmod.change_of,
}


@pytest.mark.parametrize("text", KIN, ids=lambda text: f"{text!r:.12}")
@pytest.mark.parametrize("reader", READERS)
def test_the_kin_of_a_wrong_number(reader: str, text: str) -> None:
    try:
        READERS[reader](text)
    except (MinirunError, SchemaError):
        pass  # one line, and the right exit status: minirun.cli


def test_an_old_version_with_a_long_number() -> None:
    """It is compared with 1.3, below which a limit of 0 processes is none."""
    resources = {"pids": {"limit": 0}}
    validate._no_limit_of_old(f"1.{'0' * 5000}2.0", resources)
    assert "limit" not in resources["pids"]


@pytest.mark.parametrize("text", ["abc", "²", "-1", "1.5", "9" * 5000])
def test_a_time_of_a_build_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    with pytest.raises(MinirunError, match="not seconds since 1970"):
        made.epoch(lambda: 1)


@pytest.mark.parametrize(("text", "seconds"), [("", 1), ("0", 0), ("1000000000", 10**9)])
def test_a_time_of_a_build(monkeypatch: pytest.MonkeyPatch, text: str, seconds: int) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    assert made.epoch(lambda: 1) == seconds
