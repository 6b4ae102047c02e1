"""Mounts over /proc and below it: refused as runc 1.3 does, by the place that they lead to."""

from pathlib import Path

import pytest

from security.conftest import Evil
from security.test_paths import Swapper

REFUSED = ("/proc", "/proc/", "/proc/sys", "/proc/self/attr", "/proc/1", "/proc/1/attr/exec",
           "/proc/self", "/proc/thread-self/attr", "/proc/sysrq-trigger", "/proc/scsi",
           "/proc/sys/net/ipv4/ip_forward", "//proc/./sys", "/etc/../proc/sys", "/../proc",
           "/proc/self/root/proc/sys")  # fmt: skip
LXCFS = ("cpuinfo", "diskstats", "meminfo", "stat", "swaps", "uptime", "loadavg", "slabinfo",
         "sys/kernel/ns_last_pid")  # fmt: skip


def place(evil: Evil, row: dict[str, object]) -> int:
    """Append a mount; return its index."""
    evil.config["mounts"].append(row)
    return len(evil.config["mounts"]) - 1


def refused(evil: Evil, row: dict[str, object]) -> None:
    index = place(evil, row)
    line = evil.refused()
    assert line.startswith(f"minirun: config.json: mounts[{index}].destination: /")
    assert " lies over /proc" in line and "only procfs may be mounted at /proc" in line


@pytest.mark.parametrize("path", REFUSED)
@pytest.mark.parametrize("kind", ("bind", "tmpfs"))
def test_a_mount_over_proc(kind: str, path: str, evil: Evil, tmp_path: Path) -> None:
    row: dict[str, object] = {"destination": path, "type": "tmpfs", "source": "tmpfs"}
    if kind == "bind":
        (tmp_path / "fake").mkdir()
        row = {"destination": path, "type": "bind", "source": f"{tmp_path}/fake"}
        row["options"] = ["rbind"]
    if "/root/" in path:  # a magic link: it is not followed at all
        place(evil, row)
        assert "/proc" in evil.refused()
    else:
        refused(evil, row)


@pytest.mark.parametrize("target", ("/proc", "proc", "/proc/sys", "/q", "../../proc/1"))
@pytest.mark.parametrize("kind", ("bind", "tmpfs", "cgroup"))
def test_through_a_link_of_the_image(kind: str, target: str, evil: Evil, tmp_path: Path) -> None:
    evil.link("/p", target)
    evil.link("/q", "/proc/self/../sys")
    row: dict[str, object] = {"destination": "/p", "type": kind, "source": kind}
    if kind == "bind":
        row["source"] = str(tmp_path)
        row["options"] = ["bind"]
    if kind == "cgroup":
        evil.drop_mounts("/sys/fs/cgroup")
    refused(evil, row)


def test_before_procfs_is_mounted(evil: Evil, tmp_path: Path) -> None:
    row = {"destination": "/proc", "type": "bind", "source": str(tmp_path), "options": ["bind"]}
    evil.config["mounts"].insert(0, row)
    assert "mounts[0].destination: /proc lies over /proc" in evil.refused()


@pytest.mark.parametrize(("kind", "path"), [("proc", "/proc/sys"), ("sysfs", "/proc")])
def test_another_file_system_of_the_kernel(kind: str, path: str, evil: Evil) -> None:
    refused(evil, {"destination": path, "type": kind, "source": kind})


def test_procfs_of_the_host(evil: Evil) -> None:
    """podman --pid=host without root, and `-v /proc:/proc`."""
    evil.drop_mounts("/proc")
    evil.mount("/proc", "/proc", "ro")
    done = evil.run("sh", "-c", "cat /proc/1/comm; mount | grep ' /proc '")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(Path("/proc/1/comm").read_text())
    assert "(ro," in done.stdout


@pytest.mark.parametrize("name", LXCFS)
def test_the_files_of_lxcfs(name: str, evil: Evil, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("the container's own\n")
    evil.mount(f"/proc/{name}", tmp_path / "file")
    assert evil.run("cat", f"/proc/{name}").stdout == "the container's own\n"


def test_a_place_that_is_called_proc_elsewhere(evil: Evil, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here\n")
    evil.mount("/srv/proc", tmp_path)
    evil.mount("/procedures", tmp_path)
    assert evil.run("cat", "/srv/proc/file", "/procedures/file").stdout == "here\nhere\n"


def test_a_folder_that_becomes_a_link_to_proc(evil: Evil, tmp_path: Path) -> None:
    """CVE-2021-30465's way: the destination is exchanged while it is looked up."""
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / "uptime2").write_text("")
    evil.mount("/race/dir", fake)
    (evil.layer / "race/dir").mkdir(parents=True)
    swapper = Swapper(evil.layer / "race/dir", Path("/proc/sys"))
    swapper.start()
    try:
        codes = {evil.run("sh", "-c", "! grep ' /proc/sys' /proc/mounts").returncode
                 for _ in range(25)}  # fmt: skip
    finally:
        swapper.over.set()
        swapper.join()
    assert codes <= {0, 1}
    assert swapper.count > 100
