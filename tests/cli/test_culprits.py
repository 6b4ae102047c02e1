"""What only the kernel would refuse, and without a word where: the error names the property."""

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from conftest import Program

NAME = f"culprit-{os.getpid()}"


def run(minirun: Program, layer: Path, **changes: Any) -> str:
    """Run a bundle that is refused; return what is said, which is one line."""
    config: dict[str, Any] = json.loads(minirun("spec", "busybox", "true").stdout)
    config["root"]["path"] = str(layer)
    config["annotations"] = {}
    for key in ("process", "linux"):
        config[key] |= changes.get(key, {})
    (layer.parent / "config.json").write_text(json.dumps(config))
    done = minirun("run", "--bundle", str(layer.parent), NAME)
    assert (done.returncode, done.stdout) == (1, ""), done
    assert done.stderr.count("\n") == 1, done.stderr
    assert minirun.left() == []
    return done.stderr


def test_more_groups_than_the_kernel_takes(minirun: Program, layer: Path) -> None:
    user = {"uid": 0, "gid": 0, "additionalGids": list(range(1, 70_001))}
    said = run(minirun, layer, process={"user": user})
    where = "config.json: process.user.additionalGids: "
    assert f"{where}70000 groups, and the kernel takes at most 65536" in said


@pytest.mark.parametrize("number", [0, 1, 3])
def test_too_few_open_files(minirun: Program, layer: Path, number: int) -> None:
    limits = [
        {"type": "RLIMIT_CORE", "soft": 0, "hard": 0},
        {"type": "RLIMIT_NOFILE", "soft": number, "hard": 1024},
    ]
    said = run(minirun, layer, process={"rlimits": limits})
    assert f"process.rlimits[1].soft: {number} open files, and a start takes 4" in said


def test_a_few_open_files_are_enough(minirun: Program, layer: Path) -> None:
    with pytest.raises(AssertionError, match="returncode=0"):
        run(minirun, layer, process={"rlimits": [{"type": "RLIMIT_NOFILE", "soft": 4, "hard": 4}]})


def test_a_filter_that_is_too_long(minirun: Program, layer: Path) -> None:
    rules = [
        {"names": ["getpid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1,
         "args": [{"index": 0, "value": value, "op": "SCMP_CMP_EQ"}]}
        for value in range(5000)
    ]  # fmt: skip
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}
    said = run(minirun, layer, linux={"seccomp": profile})
    assert "linux.seccomp: " in said
    assert " instructions, and the kernel takes at most 4096" in said


def test_a_time_that_no_file_can_have(minirun: Program, tmp_path: Path) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo("etc/strange")
        entry.mtime = 1 << 40  # which the plain header has no room for
        archive.addfile(entry)
    (tmp_path / "image.tar").write_bytes(data.getvalue())
    words = ("images", "import", "x", str(tmp_path / "image.tar"))
    done = minirun.at(tmp_path / "store")(*words)
    assert done.returncode == 1
    assert "'etc/strange': mtime: 1099511627776 seconds since 1970 is not a time" in done.stderr
    assert done.stderr.count("\n") == 1
