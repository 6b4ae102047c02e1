"""The stand-in libraries: read by pyelftools, by ldconfig and by the dynamic loader."""

import ctypes
import os
import subprocess
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile

from minirun.core.kernel.architecture import NATIVE
from minirun.gpu.nvidia.shared import ldcache
from minirun.gpu.simulated import elf

NEEDED = ("libc.so.6", "libm.so.6")


@pytest.mark.parametrize(
    ("machine", "bits", "name"),
    (("x86_64", 64, "x64"), ("aarch64", 64, "AArch64"), ("i686", 32, "x86"), ("armv7l", 32, "ARM")),
)
def test_header_and_dynamic_section(machine: str, bits: int, name: str) -> None:
    data = elf.shared_object("libfoo.so.1", machine, NEEDED, "SIMULATED")
    file = ELFFile(BytesIO(data))
    assert (file.elfclass, file.get_machine_arch()) == (bits, name)
    assert file.header.e_type == "ET_DYN"
    (dynamic,) = (part for part in file.iter_segments() if isinstance(part, DynamicSegment))
    tags = list(dynamic.iter_tags())
    assert [tag.soname for tag in tags if tag.entry.d_tag == "DT_SONAME"] == ["libfoo.so.1"]
    assert [tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"] == list(NEEDED)
    assert b"SIMULATED\0" in data
    assert len(data) < 1024


def test_the_loader_takes_it_and_finds_no_symbol(tmp_path: Path) -> None:
    path = tmp_path / "libfoo.so.1"
    path.write_bytes(elf.shared_object("libfoo.so.1", NATIVE.machine, ("libc.so.6",), "S"))
    library = ctypes.CDLL(str(path))
    with pytest.raises(AttributeError, match="undefined symbol: cuInit"):
        _ = library.cuInit


def test_ldconfig_makes_its_link_and_caches_it(tmp_path: Path) -> None:
    folder = tmp_path / "usr/lib"
    folder.mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ld.so.conf").write_text("/usr/lib\n")
    for machine, name in (("x86_64", "wide"), ("i686", "narrow")):
        data = elf.shared_object(f"lib{name}.so.1", machine, ("libc.so.6",), "SIMULATED")
        (folder / f"lib{name}.so.1.2.3").write_bytes(data)
    done = subprocess.run(
        ["/sbin/ldconfig", "-r", str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert os.readlink(folder / "libwide.so.1") == "libwide.so.1.2.3"
    assert os.readlink(folder / "libnarrow.so.1") == "libnarrow.so.1.2.3"
    entries = ldcache.parse((tmp_path / "etc/ld.so.cache").read_bytes())
    assert {(e.soname, e.path, e.arch) for e in entries} == {
        ("libwide.so.1", "/usr/lib/libwide.so.1", 0x0300),
        ("libnarrow.so.1", "/usr/lib/libnarrow.so.1", 0x0000),
    }
