"""Assembling a listing of machine code again, to hold its bytes against its instructions."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile


def assemble(folder: Path, machine: str, instructions: list[str]) -> str:
    """Return the bytes, in hexadecimal; skip where there is no assembler for the processor."""
    result = folder / "assembled.o"
    if shutil.which("llvm-mc"):
        command = ["llvm-mc", f"--triple={machine}-linux", "--filetype=obj"]
    elif shutil.which("as") and machine == os.uname().machine:
        command = ["as"]
    else:
        pytest.skip(f"no assembler for {machine}: the listing is not assembled again")
    source = "".join(f"{instruction}\n" for instruction in instructions)
    if machine in ("x86_64", "i686"):
        source = ".intel_syntax noprefix\n" + source
    subprocess.run([*command, "-o", str(result)], input=source, text=True, check=True)
    with result.open("rb") as file:
        code: bytes = ELFFile(file).get_section_by_name(".text").data()
    return code.hex(" ")
