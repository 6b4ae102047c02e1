"""The knowledge base: whole, true where that can be checked, and readable on any system."""

import ast
import errno
import re
import subprocess
import sys
from pathlib import Path

import pytest

import minirun as package
from conftest import Program
from minirun.core.errors import _GENERAL, HINTS
from minirun.faces import knowledge
from minirun.faces.knowledge import texts
from minirun.faces.knowledge.texts import room
from tutorials.publish.reference.events import calls, emitted, trees

SOURCE = Path(package.__file__).parent
DESIGN = (
    "clone", "clone3", "unshare", "setns", "mount", "umount2", "open_tree", "move_mount",
    "mount_setattr", "fsopen", "fsconfig", "fsmount", "pivot_root", "chroot", "mknod", "mknodat",
    "mkfifo", "symlink", "symlinkat", "bpf", "capset", "prctl", "seccomp", "setgroups", "setuid",
    "setgid", "sethostname", "execve",
)  # fmt: skip
"""The calls of the design, section 5."""


def test_the_names_are_found_in_the_source() -> None:
    some = {"mount", "setuid", "pivot_root", "hook ended", "put the GPUs in", "RUN_HOOKS", "clone3"}
    assert some <= emitted()


def test_every_event_is_known() -> None:
    names = emitted() | set(DESIGN)
    topics = {name: knowledge.event(name) for name in names}
    assert [name for name, topic in topics.items() if not (topic and topic.here)] == []


@pytest.mark.parametrize(
    "flags",
    ["--gpus 0,1 --gpu-driver simulated debian", "-u 1000:1000 --read-only --hostname h busybox"],
)
def test_every_event_of_a_run_is_known(minirun: Program, flags: str) -> None:
    done = minirun("run", "--name", "k", *flags.split(), "true")
    assert done.returncode == 0, done.stderr
    names = set()
    for event in minirun.events("k"):
        found = knowledge.event(str(event["name"]), event["args"])
        assert found, event
        names.add(found.name)
    special = {"mount overlay", "mount proc", "clone3 CLONE_NEW", "prctl PR_SET_PDEATHSIG",
               "execve trampoline", "mkfifo exec.fifo", "unshare CLONE_NEWCGROUP", "stage 7",
               "mount propagation", "pivot_root"}  # fmt: skip
    assert special <= names
    if "gpus" in flags:
        assert {"clone3 ldconfig", "execve ldconfig", "mknodat /dev/nvidia", "setns CLONE_NEWNS",
                "mount tmpfs /proc/driver", "clone3 helper", "stage 5"} <= names  # fmt: skip


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("mount", {"fstype": "tmpfs", "path": "/dev"}, "mount tmpfs"),
        ("mount", {"fstype": "tmpfs", "path": "/proc/driver/nvidia"}, "mount tmpfs /proc/driver"),
        ("mount", {"flags": "MS_BIND|MS_REC", "target": "/x"}, "mount MS_BIND"),
        ("mount", {"flags": "MS_REC|MS_SLAVE", "target": "/"}, "mount propagation"),
        ("mount", {"fstype": "ext4"}, "mount"),
        ("prctl", {"option": "PR_SET_NAME"}, "prctl PR_SET_NAME"),
        ("prctl", {"option": "99"}, "prctl"),
        ("clone3", {"flags": "CLONE_PIDFD"}, "clone3 helper"),
        ("clone3", {}, "clone3"),
        ("clone3 CLONE_NEW", {}, "clone3 CLONE_NEW"),
        ("write", {"path": "/sys/fs/cgroup/x/devices.allow"}, "write devices.allow"),
        ("write", {"path": "/sys/fs/cgroup/x/other"}, "write"),
        ("bpf", {"cmd": "BPF_PROG_ATTACH"}, "bpf BPF_PROG_ATTACH"),
        ("mknodat", {"path": "/dev/nvidia0"}, "mknodat /dev/nvidia"),
        ("mknodat", {"path": "/dev/null"}, "mknodat"),
        ("mount_setattr", {"set": "MOUNT_ATTR_IDMAP"}, "mount_setattr MOUNT_ATTR_IDMAP"),
        ("3:begin", {}, "gate"),
        ("syscall", {"after": "mount"}, "gate syscall"),
        ("umount", {}, "umount2"),
    ],
)  # fmt: skip
def test_the_arguments_decide(name: str, args: dict[str, str], expected: str) -> None:
    found = knowledge.event(name, args)
    assert found
    assert found.name == expected


def test_a_recording_may_hold_anything() -> None:
    odd: list[object] = [None, [], "x", {"path": 7, "flags": ["a"], "fstype": {}}]
    for args in odd:
        found = knowledge.event("mount", args)  # type: ignore[arg-type]
        assert found
        assert found.name == "mount"


@pytest.mark.parametrize("name", ["", "nosuch", "8:begin", "mount nosuch", "ENOENT"])
def test_what_is_no_event(name: str) -> None:
    assert knowledge.event(name) is None


def test_stages() -> None:
    for number in range(1, 8):
        found = knowledge.stage(number)
        assert found.name == f"stage {number}"
        assert all((found.here, found.spec, found.real))
        assert (SOURCE / "core/stages" / f"{found.marks[0]}.py").exists()
    for number in (0, 8):
        with pytest.raises(KeyError):
            knowledge.stage(number)


def test_every_topic_is_whole() -> None:
    found = knowledge.topics()
    assert len({one.name for one in found}) == len(found)
    for one in found:
        assert one.title, one
        assert one.here.endswith("."), one.name
        if one.kind == texts.SYSTEM_CALL:
            assert re.search(r"\(\d\w*\)|Documentation/", one.man), one.name
        for text in (one.here, one.cause, one.real):
            assert "  " not in text, one.name
            assert not re.search(r"[a-z][;,][a-z]{2,} [a-z]", text), one.name


def test_numbers_are_the_kernels() -> None:
    for name, one in room("errnos").items():
        number = one.number
        assert getattr(errno, name) == number
        assert knowledge.errno(str(number)) == knowledge.errno(name)
    assert {name for _, name in HINTS} | set(_GENERAL) <= set(room("errnos"))


CAUSES = {tuple(name.split()): one.cause for name, one in room("calls_and_errnos").items()}


@pytest.mark.parametrize(("call", "name"), sorted({*HINTS, *CAUSES}))
def test_a_call_and_its_error(call: str, name: str) -> None:
    """Every pair of the table of hints has a cause of its own, and the hint as advice."""
    found = knowledge.errno(name, call)
    assert found
    assert found.name == f"{call} {name}"
    assert knowledge.event(call)
    assert found.cause == CAUSES[call, name]
    assert found.man.endswith(", ERRORS")
    if (call, name) in HINTS:
        assert found.advice == HINTS[call, name]


def test_unknown_errors() -> None:
    assert knowledge.errno("ENOTHING") is None
    assert knowledge.errno("9" * 5000) is None
    assert knowledge.errno("9999", "mount") is None


# --- hints -------------------------------------------------------------------------------------

ERRORS = ("UsageError", "ConfigError", "ImageError", "StateError", "HookError", "GPUError",
          "CommandError", "MinirunError")  # fmt: skip


def literal_hints() -> list[str]:
    """What stands, as a literal, where an error class takes its hint."""
    given = [call.args[1] for call in calls(*ERRORS) if len(call.args) > 1]
    given += [word.value for call in calls(*ERRORS) for word in call.keywords if word.arg == "hint"]
    for tree in trees().values():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef) and "hint" in _handed_over(function):
                given += [
                    node.value
                    for node in ast.walk(function)
                    if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "hint"
                ]
    found = []
    for node in given:
        parts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
        found += [max(map(str, parts), key=len)] if parts else []
    return sorted({part for part in found if len(part) > 3})


def _handed_over(function: ast.FunctionDef) -> set[str]:
    """The variables that a function hands to error classes."""
    found = [n for n in ast.walk(function) if isinstance(n, ast.Call)]
    made = [n for n in found if getattr(n.func, "id", "") in ERRORS]
    return {getattr(arg, "id", "") for call in made for arg in call.args[1:]}


def test_every_hint_is_explained() -> None:
    """A literal counts as found where some hint holds it, with the errors that print it."""
    literals = literal_hints()
    assert len(literals) > 90
    assert {"leave -t out", "minirun ps -a shows the states"} <= set(literals)
    for text in [*literals, *HINTS.values(), *_GENERAL.values()]:
        found = [one for one in knowledge.search(text.strip()) if one.kind == texts.HINT]
        assert found, text
        assert found[0].cause.startswith("Printed by "), text


def test_a_hint_names_the_errors_that_print_it() -> None:
    found = knowledge.search("run as root")[0]
    assert found.name == "run as root"
    assert "setns: EPERM" in found.cause
    leave = knowledge.search("leave -t out")[0]
    assert "UsageError: the input device is not a TTY (running/output)" in leave.cause


def test_search() -> None:
    names = [one.name for one in knowledge.search("PIVOT_root")]
    assert names[0] == "pivot_root"
    assert {"pivot_root EINVAL", "stage 7"} <= set(names)
    assert knowledge.search("CVE-2019-5736")[0].name == "execve trampoline"
    assert knowledge.search("no such words") == []


def test_it_is_pure_data() -> None:
    """It must load where there is no Linux: without ctypes, and without minirun's kernel room."""
    program = (
        "import sys; sys.modules['ctypes'] = sys.modules['fcntl'] = None;"
        "from minirun.faces import knowledge;"
        "knowledge.hints(), knowledge.search('mount');"
        "print([name for name in sys.modules if name.startswith('minirun.core.kernel')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
