"""Every recorded case of the real nvidia-container-cli, against minirun's program on the same host.

Compared are: exit status and error text; every file, directory, node and link that is new in the
container, with mode, device and target; every mount, in order, with its flags and its source; what
is seen of /proc/driver/nvidia, and the text of params; what ldconfig cached; the cgroup's rules.
Standard error is compared but for lines that are warnings: the real one is silent there.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import skip
from gpu import pretend
from gpu.nvidia.cases import image, prepare
from gpu.nvidia.differences import DIFFERENT
from gpu.pretend import PROC, ROOT, Host, cli, look, pci_bus
from gpu.recorded import golden, recorded_names, recorded_text
from gpu.sandbox import debian_root
from minirun.cgroups import bpf, devicefilter
from minirun.cgroups.rules import DeviceRule

CASES = recorded_names("cli", ".json")
TEXTS = recorded_names("cli", ".txt")
LOGS = recorded_names("cli/logs", ".log")
OTHER = ("kmods-host-nodes",)
ENVIRONMENT = {
    "err-fail-getuuid-lost": {"PRETEND_FAIL": "uuid:15"},
    "err-nvmlinit-driver-not-loaded": {"PRETEND_FAIL": "init:9"},
    "err-nvmlinit-unknown": {"PRETEND_FAIL": "init:999"},
    "err-zero-gpus": {"PRETEND_GPUS": "0"},
    "err-zero-gpus-all": {"PRETEND_GPUS": "0"},
}
OWN = (
    "initializing", "attempting", "dxcore", "starting", "terminating", "nvcgo", "driver",
    "The path", "setting pid", "setting mount", "shutting", "missing library libnvidia-nvvm70",
    "missing library libnvidia-tileiras", "missing compat32 library libnvidia-nvvm70",
    "missing compat32 library libnvidia-tileiras",
)  # fmt: skip
"""Lines of the debug log about what only one side has: its processes, its pid, newer libraries."""


@pytest.fixture
def host(driver: Path, tmp_path: Path) -> Callable[[dict[str, Any]], Host]:
    """Make the host, and the container, of a case."""

    def make(case: dict[str, Any]) -> Host:
        root = debian_root(tmp_path / "root")
        image(root, case)
        found = Host(driver, tmp_path, root, case)
        prepare(found, case.get("case", ""))
        return found

    return make


def configure(case: dict[str, Any]) -> dict[str, Any]:
    """Run the case's command line in the pretend host; look before and after."""
    env = case["env"] | ENVIRONMENT.get(case["case"], {})
    env |= {"PRETEND_MINORS": ",".join(map(str, case["minors"]))}
    if case["mig"]:
        env["PRETEND_MIG"] = "3"
    for name in ("imex_channel",):
        env.pop(name, None)
    before = look()
    pid = pretend.sleeper()
    try:
        words = [*case["global_args"], "configure", f"--pid={pid}", *case["configure_args"], ROOT]
        done = cli(*words, env=env)
    finally:
        pretend.end(pid)
    return {"done": done, "before": before, "after": look(), "cached": cached()}


def cached() -> list[str]:
    """What the container's loader would find of the driver."""
    command = ["/sbin/ldconfig", "-r", ROOT, "-p"]
    out = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return sorted(line.strip() for line in out.splitlines() if "=>" in line)


def errors(text: str) -> str:
    """Standard error without warnings."""
    lines = text.replace(ROOT, "$ROOTFS").splitlines(keepends=True)
    return "".join(line for line in lines if ": warning: " not in line)


def new_files(found: dict[str, Any]) -> dict[str, Any]:
    before, after = found["before"]["tree"], found["after"]["tree"]
    return {path: row for path, row in after.items() if before.get(path) != row}


def recorded_files(case: dict[str, Any]) -> dict[str, Any]:
    keep = ("type", "mode", "dev", "target")
    return {
        path: {key: row[key] for key in keep if key in row}
        for path, row in case["diff"]["added"].items()
        if not path.startswith("/proc/")
    }


@pytest.mark.parametrize("name", [name for name in CASES if name not in OTHER])
def test_configure(name: str, host: Callable[[dict[str, Any]], Host]) -> None:
    case = golden(name)
    found = host(case).run(lambda: configure(case))
    done = found["done"]
    assert (done["rc"], errors(done["stderr"])) == (case["rc"], case["stderr"])
    if case["rc"]:
        assert found["after"] == found["before"]
        assert bool(case["diff"]["mounts"]) == (name in DIFFERENT)
        if name in DIFFERENT:
            pytest.xfail(DIFFERENT[name])
        return
    assert name not in DIFFERENT
    assert new_files(found) == recorded_files(case)
    compare_mounts(found, case)
    compare_proc(found, case)
    assert [
        line for line in found["cached"] if "nvidia" in line or "cuda" in line or "nv" in line
    ] == sorted(case["ldcache_added"])


def compare_mounts(found: dict[str, Any], case: dict[str, Any]) -> None:
    """Mounts are the same, in the same order, with the same flags, of the same sources."""
    old = len(found["before"]["mounts"])
    mounted = found["after"]["mounts"][old:]
    wanted = case["diff"]["mounts"]
    got = [(row["at"], row["flags"]) for row in mounted]
    assert got == [(row["at"], row["flags"]) for row in wanted]
    for row, recorded in zip(mounted, wanted, strict=True):
        if recorded["source"] == "tmpfs":
            assert row["type"] == "tmpfs" and row["from"] == "/"
            continue
        source = recorded["source"].replace("/run-nvidia-driver", "/shadow")
        if source.startswith("$ROOTFS"):  # one of the image's own files
            assert row["from"].endswith(f"/root{source.removeprefix('$ROOTFS')}")
        else:  # mountinfo tells the path on its own file system
            within = (source, source.removeprefix("/dev"), source.removeprefix("/proc/driver"))
            assert row["from"] in (*within, f"/driver{source}"), (row, recorded)


def compare_proc(found: dict[str, Any], case: dict[str, Any]) -> None:
    """The same is left of /proc/driver/nvidia, and params says the same."""
    before, after = found["before"]["proc"], found["after"]["proc"]
    gone = sorted(set(before) - set(after))
    assert gone == sorted(path for path in case["diff"]["removed"] if path.startswith(PROC))
    assert found["after"]["proc_mode"] == "0o555"
    _, params = case["diff"]["changed"][f"{PROC}/params"]
    assert after[f"{PROC}/params"] == params["content"]


def text_case(name: str) -> tuple[list[str], int, str, str]:
    """A recorded info or list: (arguments, exit status, stdout, stderr)."""
    text = recorded_text(f"cli/{name}.txt")
    head, _, rest = text.partition("\n")
    words = head.partition("nvidia-container-cli ")[2].partition("   (")[0].split()
    status, _, rest = rest.partition("\n")
    out, _, err = rest.partition("--- stderr\n")
    return words, int(status[3:]), out.partition("--- stdout\n")[2], err


SIMULATE = (
    " (no NVIDIA driver is loaded; MINIRUN_SIM=count=4 in the environment simulates one, "
    "as --gpu-driver=simulated does)"
)


@pytest.mark.parametrize("name", TEXTS)
def test_info_and_list(name: str, host: Callable[[dict[str, Any]], Host]) -> None:
    words, rc, out, err = text_case(name)
    mig = name.startswith("mig")
    machine = host({"case": name, "mig": mig})
    done = machine.run(lambda: cli(*words, env={"PRETEND_MIG": "3"} if mig else {}))
    done["stderr"] = done["stderr"].replace(SIMULATE, "")  # what minirun adds without a driver
    assert done == {"rc": rc, "stdout": out, "stderr": err}


def test_host_nodes(host: Callable[[dict[str, Any]], Host]) -> None:
    case = golden("kmods-host-nodes")
    machine = host({"mig": True})
    machine.nodes = False

    def work() -> dict[str, Any]:
        pci_bus()
        done = cli("--load-kmods", "list", "--imex-channel=0,1", env={"PRETEND_MIG": "3"})
        nodes = {}
        for path in Path("/dev").rglob("*"):
            if path.is_char_device() and not path.is_symlink() and "nvidia" in str(path):
                status = path.stat()
                device = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
                nodes[str(path)] = f"{device} {status.st_mode & 0o777:o}"
        links = {path.name: os.path.realpath(path) for path in Path("/dev/char").iterdir()}
        return {"done": done, "nodes": nodes, "links": links}

    found = machine.run(work)
    assert found["done"]["rc"] == 0
    assert found["nodes"] == case["host_nodes_after"]
    assert sorted(found["links"]) == sorted(case["links"])
    assert set(found["links"].values()) == set(found["nodes"])


@pytest.fixture
def door() -> Iterator[Path]:
    """A cgroup of version 1 that denies every device."""
    base = Path("/sys/fs/cgroup/devices")
    if not (base / "devices.allow").exists() and not (base / "devices.list").exists():
        skip("no devices controller of cgroup version 1 is mounted")
    path = base / f"minirun-test-{os.getpid()}"
    path.mkdir()
    (path / "devices.deny").write_text("a")
    yield path
    path.rmdir()


@pytest.mark.parametrize("name", [name for name in CASES if "cgroupv1" in name])
def test_cgroup_version_1(name: str, host: Callable[[dict[str, Any]], Host], door: Path) -> None:
    case = golden(name)

    def work() -> dict[str, Any]:
        pid = pretend.sleeper(str(door / "tasks"))
        env = {"PRETEND_MIG": "3"} if case["mig"] else {}
        done = cli("configure", f"--pid={pid}", *case["configure_args"], ROOT, env=env)
        rules = (door / "devices.list").read_text().splitlines()
        pretend.end(pid)
        return {"done": done, "rules": rules}

    found = host(case).run(work)
    assert found["done"]["rc"] == 0, found
    assert found["rules"] == case["cgroup_v1_added"]


@pytest.mark.parametrize("name", [name for name in CASES if "cgroupv2" in name])
def test_cgroup_version_2(name: str, host: Callable[[dict[str, Any]], Host]) -> None:
    """Another runtime's program stands there: afterwards nodes open, or not, as recorded."""
    case = golden(name)
    two = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()
           if line.split()[2] == "cgroup2"]  # fmt: skip
    if not two:
        skip("no cgroup2 is mounted")
    group = Path(two[0]) / f"minirun-test-{os.getpid()}"
    group.mkdir()
    fd = os.open(group, os.O_RDONLY)
    try:
        rows = [DeviceRule(False, "a", None, None, "rwm")]
        rows += [DeviceRule(True, "c", major, None, "rwm") for major in (1, 5, 136)]
        program = bpf.load(bpf.DEVICE, devicefilter.assemble(rows), "somebody_else")
        bpf.attach(bpf.DEVICE, fd, program)

        def work() -> dict[str, Any]:
            for line in Path("/proc/mounts").read_text().splitlines():
                if line.split()[2] == "cgroup" and "devices" in line.split()[3].split(","):
                    subprocess.run(["umount", line.split()[1]], check=True)
            pid = pretend.sleeper(str(group / "cgroup.procs"))
            before = probes(group, list(case["bpf"]["probe_before"]))
            done = cli("configure", f"--pid={pid}", *case["configure_args"], ROOT)
            after = probes(group, list(case["bpf"]["probe_after"]))
            pretend.end(pid)
            return {"done": done, "before": before, "after": after}

        found = host(case).run(work)
    finally:
        os.close(fd)
        group.rmdir()
    assert found["done"]["rc"] == 0, found["done"]
    for when in ("before", "after"):
        wanted = {
            path: {key: "ok" if row[key] == "ok" else row[key].split("(")[1][:-1]
                   for key in ("r", "w", "rw")}
            for path, row in case["bpf"][f"probe_{when}"].items()
        }  # fmt: skip
        assert found[when] == wanted


def probes(group: Path, paths: list[str]) -> dict[str, dict[str, str]]:
    """Open nodes from a process in the cgroup."""
    import errno

    answer, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        (group / "cgroup.procs").write_text("0")
        found: dict[str, dict[str, str]] = {}
        for path in paths:
            found[path] = {}
            for key, flags in (("r", os.O_RDONLY), ("w", os.O_WRONLY), ("rw", os.O_RDWR)):
                try:
                    os.close(os.open(path, flags))
                    found[path][key] = "ok"
                except OSError as error:
                    found[path][key] = errno.errorcode[error.errno or 0]
        os.write(write_fd, json.dumps(found).encode())
        os._exit(0)
    os.close(write_fd)
    with os.fdopen(answer) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return dict(json.loads(text))


@pytest.mark.parametrize("name", LOGS)
def test_debug_log(name: str, host: Callable[[dict[str, Any]], Host]) -> None:
    """--debug tells the same in the same order, but for what minirun does not do."""
    case = golden(name)

    def work() -> dict[str, Any]:
        log = "/mnt/debug.log"
        case["global_args"] = [f"--debug={log}"]
        found = configure(case)
        return {"rc": found["done"]["rc"], "log": Path(log).read_text()}

    found = host(case).run(work)
    assert found["rc"] == 0
    ours = [line.partition("] ")[2].replace(ROOT, "$ROOTFS") for line in found["log"].splitlines()]
    theirs = [
        line.partition("] ")[2].replace("/usr/lib/firmware", "/lib/firmware")
        for line in recorded_text(f"cli/logs/{name}.log").splitlines()
    ]
    assert [line for line in ours if line and not line.startswith(OWN)] == [
        line for line in theirs if line and not line.startswith(OWN)
    ]
