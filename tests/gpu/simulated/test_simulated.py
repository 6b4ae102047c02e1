"""The simulated driver: its files, its specification, and runs that race for it."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpu.recorded import DATA
from minirun.core.errors import GPUError, UsageError
from minirun.core.kernel.architecture import NARROW, NATIVE, of_machine
from minirun.gpu.drivers import inventory
from minirun.gpu.simulated import LAYOUT, build, spec

MAKE = "import sys; from minirun.gpu.drivers import inventory; "
MAKE += "print(inventory('simulated', sys.argv[1]).root)"


def files(root: str) -> dict[str, str]:
    """Path → link target, or 'file'."""
    found = {}
    for folder, folders, names in os.walk(root):
        for name in names + [n for n in folders if os.path.islink(f"{folder}/{n}")]:
            path = f"{folder}/{name}"
            found[path[len(root) :]] = os.readlink(path) if os.path.islink(path) else "file"
    return found


def measured() -> list[dict[str, Any]]:
    """The real driver's files, measured on x86_64, where this machine has them."""
    own, narrow = (of_machine(name).triplet for name in ("x86_64", "i686"))
    found = []
    for row in json.loads((DATA / "host-manifest.json").read_text())["entries"]:
        if narrow in row["path"]:
            found += (
                [{**row, "path": row["path"].replace(narrow, NARROW.triplet)}] if NARROW else []
            )
        else:
            bits = {"elf": str(NATIVE.bits)} if row.get("elf") == "64" else {}
            found.append({**row, "path": row["path"].replace(own, NATIVE.triplet), **bits})
    return found


def test_every_file_of_the_real_driver_is_there(store: str) -> None:
    wanted = {
        row["path"]: row["target"] if row["kind"] == "symlink" else "file" for row in measured()
    }
    root = inventory("simulated", store).root
    found = files(root)
    driver = {path for path in found if not path.startswith(("/proc", "/run", "/inventory"))}
    assert driver == wanted.keys()
    assert {path: found[path] for path in wanted} == wanted


def test_the_sonames_are_the_real_ones(store: str) -> None:
    from elftools.elf.elffile import ELFFile

    root = inventory("simulated", store).root
    compared = 0
    for row in measured():
        if row["kind"] == "file" and row.get("soname"):
            with open(root + row["path"], "rb") as stream:
                file = ELFFile(stream)
                (dynamic,) = (s for s in file.iter_segments() if s.header.p_type == "PT_DYNAMIC")
                (soname,) = (t.soname for t in dynamic.iter_tags() if t.entry.d_tag == "DT_SONAME")
            assert (soname, str(file.elfclass)) == (row["soname"], row["elf"]), row["path"]
            compared += 1
    assert compared > (40 if NARROW else 20)


def test_every_file_says_simulated(store: str) -> None:
    root = inventory("simulated", store).root
    silent = {"/etc/OpenCL/vendors/nvidia.icd"}  # a name that OpenCL's loader opens, nothing else
    for path, kind in files(root).items():
        if kind == "file" and os.path.isfile(root + path) and path not in silent:
            assert b"SIMULATED" in Path(root + path).read_bytes(), path


def test_the_layout_counts_up_with_the_files(store: str) -> None:
    """A store keeps its files over an update of minirun: other files need another name."""
    if os.uname().machine != "x86_64":
        pytest.skip("the hash is that of the files of an x86_64 host")
    root = inventory("simulated", store).root
    digest = hashlib.sha256()
    for path, kind in sorted(files(root).items()):
        content = Path(root + path).read_bytes() if os.path.isfile(root + path) else b""
        digest.update(f"{path} {kind}\n".encode() + content)
    assert (LAYOUT, digest.hexdigest()[:16]) == (7, "f47c282a2fbf18d1"), "count LAYOUT up"


def test_the_host_of_the_facts(store: str) -> None:
    host = inventory("simulated", store)
    assert (host.driver, host.cuda, host.simulated) == ("550.163.01", "12.4", True)
    assert [gpu.proc_name for gpu in host.gpus] == [
        f"0000:{bus}:00.0" for bus in ("07", "0f", "47", "4e")
    ]
    assert [gpu.uuid for gpu in host.gpus] == [
        f"GPU-aaaaaaaa-0000-4000-8000-{n:012}" for n in range(4)
    ]
    assert {gpu.model for gpu in host.gpus} == {"NVIDIA A100-SXM4-40GB (SIMULATED)"}


def test_another_host(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIRUN_SIM", "count=12,model=H100,driver=560.35.03,mig=3")
    host = inventory("simulated", store)
    assert (host.driver, host.cuda, len(host.gpus)) == ("560.35.03", "12.6", 12)
    assert len({gpu.bus_id for gpu in host.gpus} | {gpu.uuid for gpu in host.gpus}) == 24
    assert [len(gpu.migs) for gpu in host.gpus[:4]] == [0, 0, 0, 3]
    assert [(m.gi, m.gi_minor, m.ci_minor) for m in host.gpus[3].migs] == [
        (7, 471, 472), (8, 480, 481), (9, 489, 490),
    ]  # fmt: skip
    assert host.libraries[0].path.endswith("libnvidia-ml.so.560.35.03")


def test_the_file_in_the_store(tmp_path: Path) -> None:
    (tmp_path / "drivers").mkdir()
    path = tmp_path / "drivers/simulated.json"
    path.write_text('{"count": 2, "model": "T4", "mig": [1], "mps": true}')
    host = inventory("simulated", str(tmp_path))
    assert [gpu.model for gpu in host.gpus] == ["Tesla T4 (SIMULATED)"] * 2
    assert len(host.gpus[1].migs) == 3 and len(host.sockets) == 3
    for text in ("[]", "{", '{"cuont": 1}', '{"count": "x"}', '{"mps": 2}', '{"count": null}'):
        path.write_text(text)
        with pytest.raises(UsageError, match=r"drivers/simulated\.json"):
            inventory("simulated", str(tmp_path))


@pytest.mark.parametrize(
    "text",
    (
        "count", "count=", "count=x", "count=-1", "count=33", "count=1_0", "count=١",
        "count=1,count=2", "model=K80", "driver=550", "driver=550.x", "driver=100.10",
        "driver=550.1.2.3", "mig=4", "mig=1+", "mps=2", "foo=1", ",", "count=4,", " count=4",
    ),
)  # fmt: skip
def test_a_specification_is_parsed_strictly(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        spec.parse(text)
    assert str(caught.value).startswith("MINIRUN_SIM")


def test_without_gpus(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIRUN_SIM", "count=0")
    assert inventory("simulated", store).gpus == ()


def test_eight_runs_at_once_make_one_driver(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", MAKE, str(tmp_path)]
    runs = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    answers = {run.communicate(timeout=60)[0] for run in runs}
    assert [run.returncode for run in runs] == [0] * 8
    assert len(answers) == 1
    assert [path.name for path in (tmp_path / "drivers").iterdir()] == [
        os.path.basename(answers.pop().strip())
    ]


def test_what_a_killed_run_leaves_is_removed(tmp_path: Path) -> None:
    dead = subprocess.Popen(["/bin/true"])
    dead.wait()
    drivers = tmp_path / "drivers"
    (drivers / f".making-{dead.pid}-simulated-x/usr").mkdir(parents=True)
    (drivers / f".making-{os.getpid()}-simulated-y").mkdir()
    root = inventory("simulated", str(tmp_path)).root
    left = {path.name for path in drivers.iterdir()}
    assert left == {os.path.basename(root), f".making-{os.getpid()}-simulated-y"}


def test_a_broken_driver_is_one_line(tmp_path: Path) -> None:
    root = inventory("simulated", str(tmp_path)).root
    for text in ("", "{}", "[]", '{"driver": 1}'):
        Path(f"{root}/inventory.json").write_text(text)
        with pytest.raises(GPUError, match="simulated driver is broken") as caught:
            inventory("simulated", str(tmp_path))
        assert caught.value.hint == f"remove {root}: it is made anew"


def test_a_full_store_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)]
    script = (
        f'{" ".join(mount)} && {sys.executable} -c "{MAKE}" {tmp_path}; ls -A {tmp_path}/drivers'
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False
    )
    assert "No space left on device" in done.stderr
    assert done.stdout == ""


def test_the_umask_does_not_matter(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        root = inventory("simulated", str(tmp_path)).root
    finally:
        os.umask(mask)
    assert os.stat(f"{root}/usr/bin/nvidia-smi").st_mode & 0o777 == 0o755
    assert os.stat(f"{root}/usr/lib").st_mode & 0o777 == 0o755
    assert os.stat(f"{root}{build.catalog.SOCKETS[0][0]}").st_mode & 0o777 == 0o666
