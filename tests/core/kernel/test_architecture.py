"""The table of processors, beside what the machine's own files and libraries say of them."""

import ast
import ctypes
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_E_MACHINE

from conftest import skip
from minirun.core.kernel import architecture
from minirun.core.kernel.architecture import CALLS, NARROW, NATIVE, ROWS, Architecture
from minirun.gpu.nvidia.shared import ldcache

TOP = Path(__file__).resolve().parents[3]
EVERY = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.machine)
NUMBERED = pytest.mark.parametrize(
    "row", [row for row in ROWS if row.calls is not None], ids=lambda row: row.machine
)
ELF = {"x86_64": "X86_64", "i686": "386", "aarch64": "AARCH64", "armv7l": "ARM"}
HEADERS = {"x86_64": ("X86_64", "asm/unistd_64.h"), "i686": ("I386", "asm/unistd_32.h")}
"""Which headers of Linux have the numbers; those of all others are in asm-generic."""


@pytest.fixture(scope="module")
def libseccomp() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        skip("libseccomp is not installed")
    library.seccomp_arch_resolve_name.restype = ctypes.c_uint
    library.seccomp_syscall_resolve_name_arch.argtypes = (ctypes.c_uint, ctypes.c_char_p)
    return library


@EVERY
def test_seccomps_names_and_numbers(row: Architecture, libseccomp: ctypes.CDLL) -> None:
    name = row.scmp.removeprefix("SCMP_ARCH_").lower()
    assert libseccomp.seccomp_arch_resolve_name(name.encode()) == row.audit


@NUMBERED
def test_numbers_of_calls_beside_libseccomps(row: Architecture, libseccomp: ctypes.CDLL) -> None:
    found = {
        call: libseccomp.seccomp_syscall_resolve_name_arch(row.audit, call.encode())
        for call in CALLS
    }
    assert {call: row.number(call) for call in CALLS} == found


@NUMBERED
def test_numbers_of_calls_beside_the_kernels_headers(row: Architecture) -> None:
    path = Path("/usr/include/asm-generic/unistd.h")
    if row.machine in HEADERS:
        path = Path("/usr/include", NATIVE.triplet, HEADERS[row.machine][1])
    if not path.exists():
        skip("the kernel's headers for it are not installed: linux-libc-dev")
    found = dict(re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", path.read_text(), re.M))
    assert {call: str(row.number(call)) for call in CALLS} == {call: found[call] for call in CALLS}


@EVERY
def test_elfs_number(row: Architecture) -> None:
    assert row.elf == ENUM_E_MACHINE[f"EM_{ELF[row.machine]}"]


@EVERY
def test_debians_names(row: Architecture) -> None:
    if not shutil.which("dpkg-architecture"):
        pytest.skip("dpkg-architecture is not installed: dpkg-dev")
    for variable, expected in (("MULTIARCH", row.triplet), ("ARCH_BITS", str(row.bits))):
        argv = ["dpkg-architecture", "-a", row.debian, "-q", f"DEB_HOST_{variable}"]
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
        assert done.stdout.strip() == expected


@EVERY
def test_the_other_width_has_this_one_as_its_other(row: Architecture) -> None:
    other = architecture.of_machine(row.other)
    assert (other.other, {row.bits, other.bits}) == (row.machine, {32, 64})


@pytest.mark.parametrize(
    "field", ("machine", "elf", "scmp", "go", "debian", "triplet", "qemu", "loader", "musl")
)
def test_no_name_is_that_of_two(field: str) -> None:
    values = [getattr(row, field) for row in ROWS]
    assert len(set(values)) == len(values)


def test_the_interpreter_is_what_the_table_says_of_this_machine() -> None:
    with open(sys.executable, "rb") as file:
        elf = ELFFile(file)
        found = (elf.elfclass, elf["e_machine"])
        (loader,) = (s.get_interp_name() for s in elf.iter_segments() if s["p_type"] == "PT_INTERP")
    assert found == (NATIVE.bits, f"EM_{ELF[NATIVE.machine]}")
    assert loader == NATIVE.loader
    assert sysconfig.get_config_var("MULTIARCH") == NATIVE.triplet


@pytest.mark.parametrize("row", (NATIVE, NARROW), ids=("own", "narrow"))
def test_libc_is_in_the_cache_as_the_table_says(row: Architecture | None) -> None:
    folder = f"/lib/{row.triplet}/" if row else "none"
    found = {
        entry.arch
        for entry in ldcache.parse(Path("/etc/ld.so.cache").read_bytes())
        if entry.soname == "libc.so.6" and entry.path.startswith((folder, f"/usr{folder}"))
    }
    if not row or not found:
        pytest.skip("no libc of this width is in /etc/ld.so.cache")
    assert found <= {*row.cache}


@pytest.mark.parametrize(
    ("machine", "bits", "expected"),
    [
        ("x86_64", 64, "x86_64"), ("x86_64", 32, "i686"), ("i686", 64, "x86_64"),
        ("i586", 32, "i686"), ("armv8l", 64, "aarch64"), ("aarch64", 32, "armv7l"),
        ("s390x", 64, "s390x"),
    ],
)  # fmt: skip
def test_what_a_process_is_made_for(machine: str, bits: int, expected: str) -> None:
    assert architecture.of_process(machine, bits).machine == expected


def test_of_a_processor_without_a_row_its_name_is_known_and_no_call() -> None:
    row = architecture.of_machine("s390x")
    assert (row.go, row.triplet, row.number("bpf")) == ("s390x", "s390x-linux-gnu", -1)


def test_a_personality_does_not_change_the_numbers() -> None:
    """uname(2) says i686 to a 64-bit process below setarch(8), or armv8l."""
    if NATIVE.bits != 64 or not shutil.which("setarch"):
        skip("not a 64-bit interpreter, or no setarch")
    code = "from minirun.core.kernel.architecture import NATIVE; print(NATIVE.machine)"
    argv = ["setarch", "linux32", sys.executable, "-c", code]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=TOP)
    assert done.stdout.strip() == NATIVE.machine


ELSEWHERE = {
    "core/process/trampoline.py": "a program for each",
    "gpu/nvidia/shared/find.py": "the folders of nvidia-ctk",
    "gpu/nvidia/specs/hooks.py": "x32's folders",
    "oci/seccomp/new_calls.py": "x32's numbers",
}
"""The files that name a processor too, and why."""


def test_no_other_file_tells_processors_apart() -> None:
    names = {value for row in ROWS for value in (row.machine, row.scmp, row.triplet)}
    found = set()
    for folder in ("minirun", "rootfs-tools/rootfs_tools"):
        for path in (TOP / folder).rglob("*.py"):
            texts = (n.value for n in ast.walk(ast.parse(path.read_text()))
                     if isinstance(n, ast.Constant))  # fmt: skip
            if any(text in names for text in texts):
                found.add(os.path.relpath(path, TOP / folder))
    assert found - {"core/kernel/architecture.py"} == {*ELSEWHERE}
