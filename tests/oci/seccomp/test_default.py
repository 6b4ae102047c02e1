"""The default profile, call by call and capability by capability, beside podman's as Debian has it.

Both are compiled, and the programs are asked for every number on every architecture.
"""

import itertools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import skip
from layers import layer_of
from minirun.core.kernel.architecture import NATIVE
from minirun.core.process.caps import NUMBERS
from minirun.faces import knowledge
from minirun.faces.knowledge.seccomp import rows
from minirun.oci import run_config
from minirun.oci.seccomp import compiler as kernel
from minirun.oci.seccomp import file as seccomp_file
from minirun.oci.seccomp import profile as seccomp
from oci.seccomp import interpreter

DEBIANS = Path("/usr/share/containers/seccomp.json")
X86_64, X86, X32, ARM64, ARM = 0xC000003E, 0x40000003, 0x4000003E, 0xC00000B7, 0x40000028
"""AUDIT_ARCH_*; x32's is libseccomp's own: the kernel says x86_64, and sets a bit in the number."""
X32_BIT = 0x40000000
ALLOW, EPERM, EINVAL, ENOSYS = 0x7FFF0000, 0x00050001, 0x00050016, 0x00050026
NETLINK, AUDIT = 16, 9  # AF_NETLINK, NETLINK_AUDIT
CAPABILITIES = [(), run_config.CAPABILITIES, tuple(NUMBERS), *((name,) for name in NUMBERS)]
ARGUMENTS = [
    (0,), (8,), (0x20000,), (0x20008,), (0xFFFFFFFF,), (2**64 - 1,), (0x40000,), (1 << 32,),
    (NETLINK, 3, AUDIT), (NETLINK, 3, 0), (2, 1, AUDIT), (0x10000000,), (0x7E020000,),
]  # fmt: skip
"""personality's values, families, and flags of clone: all that some profile looks at."""
HOST_FAMILIES = (38, 40)
DIFFERENT = {"CAP_BPF": "bpf", "CAP_PERFMON": "perf_event_open"}
"""What these open here, as with docker."""


LATER = DEBIANS.exists() and "fchmodat2" in DEBIANS.read_text()
"""Debian's is that of a later podman; ours follows podman 4's."""


def default(held: tuple[str, ...] | list[str], machine: str = "") -> dict[str, Any]:
    return seccomp_file.load(seccomp_file.NAME, held, machine)


def program(profile: dict[str, Any]) -> bytes:
    return seccomp.load(profile).bpf


def numbers_of(call: str, tokens: tuple[int, ...]) -> set[tuple[int, int]]:
    """Where a call is: (the architecture that the kernel names, number)."""
    compiler = kernel.Compiler(ALLOW)
    for name in ("x86_64", "x86", "x32", "aarch64", "arm"):
        compiler.add_architecture(name)
    found = compiler.newest([call]).items()
    return {(X86_64 if token == X32 else token, n) for token, n in found if token in tokens}


def numbers(tokens: tuple[int, ...]) -> list[tuple[int, int]]:
    """Every number that a call can have: (architecture, number)."""
    rows = [(token, n) for token in tokens if token != X32 for n in (*range(480), 0xFFFFFFFF)]
    rows += [(ARM, 0xF0000 + n) for n in range(8)] * (ARM in tokens)
    return rows + [(X86_64, X32_BIT + n) for n in (*range(480), *range(512, 550))] * (X32 in tokens)


@pytest.mark.parametrize("held", CAPABILITIES, ids=lambda held: f"{len(held)} {held[:1]}")
@pytest.mark.parametrize(
    ("machine", "tokens"),
    [("x86_64", (X86_64, X86, X32)), ("i686", (X86,)), ("aarch64", (ARM64, ARM))],
)
def test_as_debians(held: tuple[str, ...], machine: str, tokens: tuple[int, ...]) -> None:
    if not DEBIANS.exists():
        skip("golang-github-containers-common is not installed")
    if LATER:
        pytest.skip("this machine has the profile of a podman after 4, which other calls are in")
    profiles = [
        (default(some, machine), seccomp_file.load(str(DEBIANS), some, machine))
        for some in (held, ())
    ]
    if held and profiles[0] == profiles[1]:
        return  # the capability opens nothing, in neither
    if not profiles[0][1]["architectures"]:  # it has no row for i686: podman takes the native one
        profiles[0][1]["architectures"] = profiles[0][0]["architectures"]
    ours, theirs = (program(profile) for profile in profiles[0])
    expected = numbers_of("arch_prctl", tokens) if machine == "i686" else set()
    for name, call in DIFFERENT.items():
        if name in held and "CAP_SYS_ADMIN" not in held:
            expected |= numbers_of(call, tokens)
    found = set()
    judged = numbers_of("personality", tokens) | numbers_of("socket", tokens)
    for token, number in numbers(tokens):
        some = ARGUMENTS if (token, number) in judged or held == () else ARGUMENTS[:1]
        for args in some:
            mine = interpreter.answer(ours, token, number, *args)
            if mine != interpreter.answer(theirs, token, number, *args):
                assert mine == ALLOW, (hex(token), number, args, hex(mine))
                found.add((token, number))
    assert found == expected


SOCKET = NATIVE.audit, {"x86_64": 41, "i686": 359, "aarch64": 198}.get(NATIVE.machine, -1)
"""This machine's own architecture, and its number for socket. i686 has a second, socketcall."""


def test_families_that_reach_out_of_the_container_are_refused() -> None:
    """In either half of the register: the kernel looks at the lower one."""
    for held in ((), run_config.CAPABILITIES, tuple(NUMBERS)):
        made = seccomp.load(default(held)).bpf
        for family, above in itertools.product(range(60), (0, 1 << 32, 0xFFFFFFFF << 32)):
            said = interpreter.answer(made, *SOCKET, family + above, 1, 0)
            assert said == (EPERM if family in HOST_FAMILIES else ALLOW), family


GROUPS = [(name, row["names"], row.get("includes", {})) for name, _, row in rows()
          if "args" not in row]  # fmt: skip


def test_every_call_of_the_kernels_headers_is_in_a_group() -> None:
    headers = Path("/usr/include/x86_64-linux-gnu/asm")
    if not headers.is_dir():
        skip("the headers of an x86-64 kernel are not installed")
    grouped = {call for _, calls, _ in GROUPS for call in calls}
    grouped |= {"socket", "personality"}
    text = (headers / "unistd_64.h").read_text() + (headers / "unistd_x32.h").read_text()
    named = re.findall(r"#define __NR_(\w+) (?:\(__X32_SYSCALL_BIT \+ )?(\d+)", text)
    reserved = {"uprobe", "uretprobe"}  # the kernel calls these itself
    assert {name for name, number in named if int(number) < 451} - grouped - reserved == set()


def test_no_call_is_in_two_groups() -> None:
    arms = next(calls for name, calls, _ in GROUPS if name == "arm")
    plain = [calls for _, calls, includes in GROUPS if "caps" not in includes]
    every = [call for calls in plain for call in calls if call not in arms]
    assert sorted(every) == sorted(set(every))
    opened = {call for _, calls, includes in GROUPS if "caps" in includes for call in calls}
    assert not opened & set(every)


def test_what_a_capability_opens_is_refused_without_it() -> None:
    entries = json.loads(Path(seccomp_file.DEFAULT).read_text())["syscalls"]
    opened: set[tuple[str, str]] = set()
    closed: set[tuple[str, str]] = set()
    for row in entries:
        if "args" not in row:
            for pairs, key in ((opened, "includes"), (closed, "excludes")):
                pairs.update(itertools.product(row["names"], row.get(key, {}).get("caps", ())))
    assert opened == closed


def test_explain_knows_each_group_and_call() -> None:
    for name, calls, _ in GROUPS:
        for call in calls:
            topics = knowledge.profile(call)
            assert f"seccomp {name}" in [one.name for one in topics], call
            assert all(one.title for one in topics)


def test_another_machine_has_its_native_calls_alone() -> None:
    assert default((), "riscv64")["architectures"] == []
    assert "SCMP_ARCH_ARM" in default((), "aarch64")["architectures"]


def test_config_json_has_it(minirun: Any) -> None:
    """`spec IMAGE` writes it; without an image the template stays runc's, which has none."""
    told = json.loads(minirun("spec", "--cap-add", "SYS_PTRACE", "busybox", "true").stdout)
    wanted = [*run_config.CAPABILITIES, "CAP_SYS_PTRACE"]
    assert told["linux"]["seccomp"] == default(wanted)
    off = minirun("spec", "--security-opt", "seccomp=unconfined", "busybox", "true").stdout
    assert "seccomp" not in json.loads(off)["linux"]


def test_the_template_is_runcs(minirun: Any, tmp_path: Path) -> None:
    minirun("spec", "-b", str(tmp_path))
    linux = json.loads((tmp_path / "config.json").read_text())["linux"]
    assert "seccomp" not in linux
    assert "/proc/interrupts" not in linux["maskedPaths"]


def test_hot_cpus_are_masked(tmp_path: Path) -> None:
    """A virtual machine has no such counters: a folder made as a real machine's stands in."""
    assert run_config.revealing(str(tmp_path)) == ["/proc/interrupts"]
    for name in ("cpu0", "cpu1", "cpu10"):
        (tmp_path / name / "thermal_throttle").mkdir(parents=True)
    for name in ("cpufreq", "cpuidle", "cpu2"):
        (tmp_path / name).mkdir()
    hot = [f"{tmp_path}/{name}/thermal_throttle" for name in ("cpu0", "cpu1", "cpu10")]
    assert run_config.revealing(str(tmp_path)) == ["/proc/interrupts", *hot]


def test_runc_runs_it(minirun: Any, tmp_path: Path) -> None:
    done = subprocess.run(["which", "runc"], check=False, capture_output=True)
    if done.returncode:
        skip("runc is not installed")
    config = json.loads(minirun("spec", "busybox", "sh", "-c", "echo ran").stdout)
    layer = layer_of("busybox")
    config["root"] = {"path": str(layer), "readonly": True}
    config["ociVersion"] = "1.0.2"
    (tmp_path / "config.json").write_text(json.dumps(config))
    argv = ["runc", "--root", str(tmp_path / "runc"), "run", "-b", str(tmp_path), "of-default"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("ran\n", 0), done.stderr
