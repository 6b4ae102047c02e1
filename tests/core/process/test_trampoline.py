"""The trampoline, executed for real by this machine's processor (and in qemu where it is)."""

import errno
import fcntl
import os
import re
import shutil
import stat
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from core.process.assembler import assemble
from minirun.core.errors import MinirunError
from minirun.core.kernel.architecture import NATIVE, of_machine
from minirun.core.process import trampoline

FD = 77
LISTINGS = {
    "x86_64": trampoline.X86_64, "i686": trampoline.I686, "aarch64": trampoline.AARCH64,
}  # fmt: skip
NAMES = {"x86_64": "x64", "i686": "x86", "aarch64": "AArch64"}
"""As pyelftools names them."""
NOT_EXECUTED = 99


def jump(argv: list[str], env: dict[str, str], report: bool = True) -> tuple[int, bytes, str]:
    """Run the trampoline as init would; return (exit status, what came through FD, stdout)."""
    report_read, report_write = os.pipe()
    out_read, out_write = os.pipe()
    memfd = trampoline.open_sealed(FD)
    pid = os.fork()
    if pid == 0:
        os.dup2(out_write, 1)
        if report:
            os.dup2(report_write, FD, inheritable=True)
        os.execve(memfd, argv, env)
    for fd in (memfd, report_write, out_write):
        os.close(fd)
    with open(report_read, "rb") as report_pipe, open(out_read) as out:
        answer, output = report_pipe.read(), out.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), answer, output


def test_the_command_gets_its_arguments_and_its_environment_and_no_descriptor_of_ours() -> None:
    script = 'echo "$0 $1 $COLOUR"; ls /proc/$$/fd | grep -x 77; exit 7'
    argv = ["/bin/sh", "sh", "-c", script, "zero", "one"]
    status, answer, out = jump(argv, {"COLOUR": "green", "PATH": "/usr/bin:/bin"})
    assert (status, answer, out) == (7, b"", "zero one green\n")


def test_a_missing_command_is_127_and_sends_enoent() -> None:
    status, answer, _ = jump(["/nonexistent/program", "program"], {})
    assert (status, answer) == (127, errno.ENOENT.to_bytes(4, "little"))


@pytest.mark.parametrize(
    ("mode", "content", "expected"),
    [(0o644, b"#!/bin/sh\n", errno.EACCES), (0o755, b"no program at all", errno.ENOEXEC)],
)
def test_a_command_that_cannot_run_is_126_and_sends_errno(
    tmp_path: Path, mode: int, content: bytes, expected: int
) -> None:
    program = tmp_path / "program"
    program.write_bytes(content)
    program.chmod(mode)
    status, answer, _ = jump([str(program), "program"], {})
    assert (status, answer) == (126, expected.to_bytes(4, "little"))


def test_a_directory_is_126() -> None:
    status, answer, _ = jump(["/usr", "usr"], {})
    assert (status, answer) == (126, errno.EACCES.to_bytes(4, "little"))


def test_without_the_descriptor_nothing_is_executed() -> None:
    status, answer, out = jump(["/bin/echo", "echo", "ran"], {}, report=False)
    assert (status, answer, out) == (126, b"", "")


def test_proc_self_exe_as_interpreter_or_link_reaches_no_interpreter(tmp_path: Path) -> None:
    """CVE-2019-5736: both would have been the host's python3."""
    script = tmp_path / "script"
    script.write_text("#!/proc/self/exe\nprint('the host')\n")
    script.chmod(0o755)
    link = tmp_path / "link"
    link.symlink_to("/proc/self/exe")
    for attack in (script, link):
        status, answer, out = jump([str(attack), "python3", "-c", "print('the host')"], {})
        assert (status, answer, out) == (126, b"", "")


def test_the_memory_file_cannot_be_changed() -> None:
    memfd = trampoline.open_sealed(FD)
    content = trampoline.build(FD)
    path = f"/proc/self/fd/{memfd}"
    writable = os.open(path, os.O_RDWR)  # root may open it; that is all
    try:
        assert os.pread(memfd, 4096, 0) == content
        assert stat.S_IMODE(os.fstat(memfd).st_mode) == 0o555
        assert not os.get_inheritable(memfd)
        for change in (
            lambda: os.pwrite(writable, b"x", 0),
            lambda: os.pwrite(writable, b"x", len(content)),
            lambda: os.ftruncate(writable, 0),
            lambda: fcntl.fcntl(writable, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE),
        ):
            with pytest.raises(PermissionError):
                change()
        with pytest.raises(PermissionError):
            os.open(path, os.O_RDWR | os.O_TRUNC)
        assert os.pread(memfd, 4096, 0) == content
    finally:
        os.close(writable)
        os.close(memfd)


@pytest.mark.parametrize("machine", LISTINGS)
def test_the_file_is_a_small_static_executable(tmp_path: Path, machine: str) -> None:
    program = tmp_path / "trampoline"
    program.write_bytes(trampoline.build(FD, machine))
    assert program.stat().st_size < 256
    with program.open("rb") as file:
        elf = ELFFile(file)
        (segment,) = elf.iter_segments()
        assert elf.get_machine_arch() == NAMES[machine]
        assert elf.elfclass == of_machine(machine).bits
        assert segment["p_type"] == "PT_LOAD"
        assert segment["p_flags"] == 5  # readable and executable, not writable
        assert segment["p_vaddr"] < elf["e_entry"] < segment["p_vaddr"] + segment["p_filesz"]


def test_another_processor_is_refused_by_name() -> None:
    with pytest.raises(MinirunError, match="riscv64"):
        trampoline.build(FD, "riscv64")


@pytest.mark.parametrize("fd", [3, FD, 65535])
@pytest.mark.parametrize("machine", LISTINGS)
def test_the_bytes_are_what_an_assembler_makes_of_the_listing(
    tmp_path: Path, machine: str, fd: int
) -> None:
    rows = [line.split("|") for line in LISTINGS[machine].splitlines() if line]
    words = [re.sub(r"\bFD\b", str(fd), instruction) for _, instruction, _ in rows]
    code = assemble(tmp_path, machine, [word.strip() for row in words for word in row.split(";")])
    header = 64 + 56 if of_machine(machine).bits == 64 else 52 + 32
    assert code == trampoline.build(fd, machine)[header:].hex(" ")


@pytest.mark.parametrize("machine", [name for name in LISTINGS if name != NATIVE.machine])
def test_another_processors_runs(tmp_path: Path, machine: str) -> None:
    """By this kernel, if it executes programs of the other width too; else in qemu."""
    name = of_machine(machine).qemu
    qemu = shutil.which(f"qemu-{name}-static") or shutil.which(f"qemu-{name}")
    program = tmp_path / "trampoline"
    program.write_bytes(trampoline.build(FD, machine))
    program.chmod(0o755)
    before = [] if machine == NATIVE.other else [qemu or "", "-0"]
    if before and not qemu:
        pytest.skip(f"no qemu-{name}: the {machine} trampoline is only assembled, not run")
    for path, expected in (("/nonexistent", (127, b"\2\0\0\0")), ("/bin/true", (0, b""))):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(writing, FD)
            try:
                if before:
                    os.execv(before[0], [*before, path, str(program), "true"])
                os.execv(program, [path, "true"])
            except OSError:  # ENOEXEC
                os._exit(NOT_EXECUTED)
        os.close(writing)
        with open(reading, "rb") as pipe:
            answer = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status == NOT_EXECUTED:
            pytest.skip(f"this kernel executes no programs of {machine}")
        assert (status, answer) == expected
