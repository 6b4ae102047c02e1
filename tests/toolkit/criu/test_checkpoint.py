"""A container that was saved to files goes on from where it was, and is a container like any other.

With a real CRIU: see working.py, which says where it comes from.
"""

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from conftest import cgroup, wait_until
from minirun.cgroups import hierarchies
from minirun.core.kernel import mountinfo
from toolkit.criu.conftest import Bundle


def test_it_goes_on_from_where_it_was(bundle_both: Bundle) -> None:
    bundle = bundle_both
    bundle.run()
    wait_until(lambda: bundle.count()[1] > 20)
    assert bundle.checkpoint().returncode == 0
    pid, number = bundle.count()
    assert bundle.status() == "" and not list(bundle.minirun.root.glob("[!.]*"))
    time.sleep(0.1)
    assert bundle.count() == (pid, number), "nobody counts any more"
    bundle.restore()
    assert bundle.status() == "running"
    wait_until(lambda: bundle.count()[1] > number + 3)
    assert bundle.count()[0] == pid != 1
    assert bundle.count()[1] < number + 1000, "it did not begin anew"
    assert bundle.minirun("exec", "c", "cat", "/count").stdout.split()[0] == str(pid)
    assert bundle.minirun("kill", "c", "KILL").returncode == 0
    wait_until(lambda: bundle.status() == "stopped")
    assert bundle.minirun("delete", "c").returncode == 0


def test_its_cgroup_is_made_again(bundle_both: Bundle) -> None:
    bundle, minirun = bundle_both, bundle_both.minirun
    limits = {"memory": {"limit": 96 << 20}, "pids": {"limit": 33}}
    on_v1 = "v1" in minirun.flags  # of a machine that has both, version 1 has the controllers
    device = {"allow": True, "type": "c", "major": 10, "minor": 200, "access": "rwm"}
    rules = [{"allow": False, "access": "rwm"}, device]
    bundle.config["linux"]["resources"] = {"devices": rules, **(limits if on_v1 else {})}
    bundle.save()
    bundle.run()
    in_force, place = minirun("inspect", "--devices", "c").stdout, cgroup(minirun, "c")
    assert "10:200" in in_force
    assert bundle.checkpoint().returncode == 0
    assert not Path(place).exists()
    bundle.restore()
    assert minirun("inspect", "--devices", "c").stdout == in_force
    assert cgroup(minirun, "c") == place
    inside = set(Path(place, "cgroup.procs").read_text().split())
    assert str(bundle.init()) in inside and len(inside) >= 2
    if on_v1:
        assert Path(place, "pids.max").read_text() == "33\n"
        memory = Path(place.replace("/pids/", "/memory/"), "memory.limit_in_bytes")
        assert int(memory.read_text()) == 96 << 20


def test_it_may_run_on(bundle: Bundle) -> None:
    bundle.run()
    init = bundle.init()
    assert bundle.checkpoint("--leave-running").returncode == 0
    number = bundle.count()[1]
    wait_until(lambda: bundle.count()[1] > number + 3)
    assert (bundle.status(), bundle.init()) == ("running", init)
    bundle.minirun("delete", "-f", "c")
    wait_until(lambda: not Path(f"/proc/{init}").exists())
    later = bundle.count()[1]
    bundle.restore(name="d")
    wait_until(lambda: bundle.count()[1] < later)
    assert bundle.status("d") == "running"


def test_flags_of_a_newer_runc(bundle: Bundle) -> None:
    bundle.run()
    done = bundle.checkpoint("--link-remap", "--tcp-skip-in-flight")
    assert done.returncode == 0, done.stderr
    bundle.restore()
    assert bundle.status() == "running"


def test_in_the_foreground_it_ends_with_the_commands_status(bundle: Bundle) -> None:
    """Its input and output are pipes, another one on each side."""
    bundle.command("sh", "-c", "echo first; touch /count; read x; echo got $x; exit 7")
    argv = bundle.minirun.argv("run", "--bundle", str(bundle.path), "c")
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    first = subprocess.Popen(argv, **ends, text=True)
    wait_until(lambda: (bundle.rootfs / "count").exists())
    assert bundle.checkpoint().returncode == 0
    assert first.communicate()[0] == "first\n"
    assert first.returncode == 137, "CRIU kills what it has saved"
    done = bundle.minirun(
        "restore", "--image-path", str(bundle.images), "-b", str(bundle.path), "c", input="word\n"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("got word\n", "", 7)
    assert bundle.status() == ""


def test_a_signal_goes_to_the_restored_command(bundle: Bundle) -> None:
    bundle.command("sh", "-c", "trap 'exit 9' TERM; touch /count; while :; do sleep 0.05; done")
    bundle.run()
    assert bundle.checkpoint().returncode == 0
    places = (
        "--image-path",
        str(bundle.images),
        "-b",
        str(bundle.path),
        "--pid-file",
        f"{bundle.path}/pid",
    )
    with bundle.output.open("a") as file:
        waiting = subprocess.Popen(
            bundle.minirun.argv("restore", *places, "c"), stdin=subprocess.DEVNULL, stdout=file
        )
    wait_until(lambda: bundle.status() == "running" and (bundle.path / "pid").exists())
    assert (bundle.path / "pid").read_text() == str(bundle.init())
    waiting.terminate()
    assert waiting.wait(10) == 9


def test_a_file_that_it_writes_to_is_opened_again(bundle: Bundle) -> None:
    """Whatever the streams of the process that restores it are."""
    bundle.command("sh", "-c", "touch /count; while :; do echo more; sleep 0.05; done")
    bundle.run()
    assert bundle.checkpoint().returncode == 0
    written = bundle.output.read_text()
    places = ("--image-path", str(bundle.images), "-b", str(bundle.path))
    done = bundle.minirun("restore", "-d", *places, "c")
    assert (done.returncode, done.stdout) == (0, "")
    wait_until(lambda: bundle.output.read_text() > written)
    assert set(bundle.output.read_text().split()) == {"more"}


def test_cgroups_of_others_are_none_of_its_business(bundle_both: Bundle) -> None:
    """At the checkpoint a stranger has cgroups in every hierarchy; by the restore it has gone."""
    bundle = bundle_both
    bundle.run()
    mounted = hierarchies.mounted()
    places = [Path(each.path, f"stranger-{os.getpid()}") for each in mounted]
    for place in places:
        place.mkdir()
    try:
        assert bundle.checkpoint().returncode == 0
    finally:
        for place in places:
            place.rmdir()
    bundle.restore()
    assert places and not [place for place in places if place.exists()]


def test_what_is_bound_and_what_is_masked(bundle: Bundle) -> None:
    """A bind below a bind, a tmpfs below a bind, and the host's cgroup namespace."""
    data, other = bundle.path / "data", bundle.path / "other"
    for place in (data, other):
        (place / "own").mkdir(parents=True)
        (place / "file").write_text(place.name)
        (place / "below").touch()
    config = bundle.config
    for place, source, flags in (
        ("/data", data, ["rbind", "ro"]), ("/data/below", "/etc/passwd", ["bind"]),
        ("/sys/kernel", "/sys/kernel", ["rbind", "ro"]),
    ):  # fmt: skip
        row = {"destination": place, "type": "bind", "source": str(source), "options": flags}
        config["mounts"].append(row)
    config["mounts"].append({"destination": "/data/own", "type": "tmpfs", "source": "tmpfs"})
    config["linux"]["maskedPaths"].append("/sys/kernel/notes")
    config["linux"]["namespaces"] = [
        n for n in config["linux"]["namespaces"] if n["type"] != "cgroup"
    ]
    bundle.save()
    bundle.run()
    bundle.minirun("exec", "c", "sh", "-c", "echo kept >/data/own/file")
    before = mounts(bundle)
    assert bundle.checkpoint().returncode == 0
    config["mounts"][-4]["source"] = str(other)
    bundle.save()
    bundle.restore()
    assert mounts(bundle) == before
    script = "cat /data/file /data/own/file; wc -l </data/below; touch /data/x"
    script += "; cat /sys/kernel/notes /proc/keys"
    done = bundle.minirun("exec", "c", "sh", "-c", script)
    passwd = len(Path("/etc/passwd").read_text().splitlines())
    assert done.stdout == f"otherkept\n{passwd}\n"
    assert "Read-only file system" in done.stderr


def mounts(bundle: Bundle) -> list[tuple[str, ...]]:
    """The place, options and kind of each of the container's mounts."""
    found = mountinfo.read(bundle.init())
    return sorted((mount.mount_point, mount.options, mount.fs_type) for mount in found)


@pytest.mark.parametrize("kind", ["network", "ipc", "uts", "pid"])
def test_a_namespace_by_path(bundle: Bundle, kind: str) -> None:
    short = {"network": "net"}.get(kind, kind)
    flags = ["--pid", "--fork", "--kill-child"] if kind == "pid" else [f"--{short}"]
    other = subprocess.Popen(["unshare", *flags, "sh", "-c", "while :; do sleep 0.1; done"])
    file = "pid_for_children" if kind == "pid" else short
    path = f"/proc/{other.pid}/ns/{file}"
    try:
        wait_until(
            lambda: (
                os.path.exists(path) and os.readlink(path) != os.readlink(f"/proc/self/ns/{short}")
            )
        )
        theirs = os.readlink(path)
        for row in bundle.config["linux"]["namespaces"]:
            if row["type"] == kind:
                row["path"] = path
        if kind == "uts":
            del bundle.config["hostname"]
        bundle.save()
        bundle.run()
        init = bundle.init()
        assert bundle.checkpoint().returncode == 0
        wait_until(lambda: not os.path.exists(f"/proc/{init}"))  # its number is to be free again
        number = bundle.count()[1]
        bundle.restore()
        assert os.readlink(f"/proc/{bundle.init()}/ns/{short}") == theirs
        wait_until(lambda: bundle.count()[1] > number)
        bundle.minirun("delete", "-f", "c")
    finally:
        other.kill()
        other.wait()


def test_a_paused_container(bundle: Bundle) -> None:
    bundle.run()
    assert bundle.minirun("pause", "c").returncode == 0
    number = bundle.count()[1]
    assert bundle.checkpoint().returncode == 0
    bundle.restore()
    wait_until(lambda: bundle.count()[1] > number)


def test_a_connection(bundle: Bundle) -> None:
    """Both ends are in there; CRIU takes it only where it is asked to.

    CRIU 4.1 asks a TCP socket for SO_PASSCRED, which Linux since 6.16 has for Unix sockets alone.
    """
    server = "nc -l -p 7 -e sh -c 'while read line; do echo answer $line; done'"
    client = "while :; do i=$((i+1)); echo $i; sleep 0.05; done | nc 127.0.0.1 7 >>/count"
    bundle.command("sh", "-c", f"{server} & sleep 0.2; {client}")
    bundle.run()
    wait_until(lambda: "answer 3" in (bundle.rootfs / "count").read_text())
    done = bundle.checkpoint()
    assert done.returncode == 1 and "--tcp-established" in done.stderr
    done = bundle.checkpoint("--tcp-established")
    if "Can't get 1:16 opt: Operation not supported" in done.stderr:
        assert done.returncode == 1 and bundle.status() == "running"
        return
    assert (done.returncode, done.stderr) == (0, "")
    before = (bundle.rootfs / "count").read_text()
    bundle.restore("--tcp-established")
    wait_until(lambda: len((bundle.rootfs / "count").read_text()) > len(before))
    lines = (bundle.rootfs / "count").read_text().splitlines()
    assert lines == [f"answer {number}" for number in range(1, len(lines) + 1)]


def test_memory_first(bundle: Bundle) -> None:
    """--pre-dump saves memory alone, and then only the pages that have changed since are left.

    A kernel without CONFIG_MEM_SOFT_DIRTY cannot say which ones these are, and CRIU says so.
    """
    bundle.run()
    argv = ["criu", "check", "--feature", "mem_dirty_track"]
    can = subprocess.run(argv, capture_output=True, check=False).returncode == 0
    done = bundle.dump("--pre-dump", "--image-path", f"{bundle.path}/first", "c")
    assert bundle.status() == "running"
    if not can:
        assert done.returncode == 1 and "Tracking memory is not available" in done.stderr
        return
    assert done.returncode == 0
    assert bundle.checkpoint("--parent-path", "../first").returncode == 0
    assert (bundle.images / "parent").readlink() == Path("../first")
    bundle.goes_on()


def test_memory_to_a_server(bundle: Bundle) -> None:
    bundle.run()
    pages = bundle.path / "pages"
    pages.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ready, tell = os.pipe()
    argv = ["criu", "page-server", "-D", str(pages), "--port", str(port), "--status-fd", str(tell)]
    server = subprocess.Popen([*argv, "-o", "server.log"], pass_fds=(tell,))
    try:
        os.close(tell)
        assert os.read(ready, 1) == b"\0"
        done = bundle.checkpoint("--page-server", f"127.0.0.1:{port}")
        assert (done.returncode, done.stderr) == (0, "")
        assert server.wait(10) == 0
    finally:
        os.close(ready)
        server.kill()
        server.wait()
    assert list(pages.glob("pages-*.img")) and not list(bundle.images.glob("pages-*.img"))
    for file in pages.glob("page*.img"):
        file.rename(bundle.images / file.name)
    bundle.goes_on()


def test_the_log_says_what_criu_was_told(bundle: Bundle) -> None:
    bundle.run()
    work = bundle.path / "work"
    assert bundle.checkpoint("--leave-running", "--work-path", str(work)).returncode == 0
    assert (work / "dump.log").exists() and not (bundle.images / "dump.log").exists()
    events = bundle.minirun.events("c")
    started = next(e for e in reversed(events) if e["name"] == "execve")
    assert started["args"]["argv"][1] == "dump"  # type: ignore[index]
    assert str(bundle.init()) in started["args"]["argv"]  # type: ignore[index]
    assert events[-1]["name"] == "criu ended" and events[-1]["args"] == {
        "action": "dump",
        "status": 0,
    }
    bundle.restore(name="d")
    assert "container d: restored\n" in bundle.minirun("timeline", "d").stdout
    lines = bundle.minirun("timeline").stdout.splitlines()
    assert [line.split()[5] for line in lines if line.startswith("d ")] == ["-------"]
    assert [line.split()[6] for line in lines if line.startswith("d ")] == ["restored"]


@pytest.mark.parametrize("given", [True, False])
def test_the_default_place(bundle: Bundle, given: bool) -> None:
    bundle.run()
    flags = ["--image-path", "checkpoint"] if given else []
    assert bundle.dump("--leave-running", *flags, "c", cwd=bundle.path).returncode == 0
    assert (bundle.path / "checkpoint" / "inventory.img").exists()


def test_nobody_else_reads_its_memory(bundle: Bundle) -> None:
    """Not even where the directory is somebody's."""
    bundle.images.mkdir(mode=0o755)
    bundle.run()
    assert (
        bundle.checkpoint("--leave-running", "--work-path", f"{bundle.path}/work").returncode == 0
    )
    modes = {path.name: path.stat().st_mode & 0o077 for path in bundle.images.iterdir()}
    assert len(modes) > 20 and not any(modes.values())
    assert (bundle.path / "work").stat().st_mode & 0o777 == 0o700


def test_an_interrupted_restore(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CRIU that never ends goes with it, and so does all that was made."""
    bundle.run()
    place = cgroup(bundle.minirun, "c")
    assert bundle.checkpoint().returncode == 0
    slow_criu(bundle, monkeypatch, "exec sleep 1000")
    places = ("--image-path", str(bundle.images), "-b", str(bundle.path))
    waiting = bundle.minirun.start("restore", *places, "c")
    wait_until(lambda: (bundle.path / "begun").exists())
    wait_until(lambda: len(Path(place, "cgroup.procs").read_text().split()) == 1)  # touch is gone
    inside = Path(place, "cgroup.procs").read_text().split()
    waiting.terminate()
    assert "interrupted by signal 15" in waiting.communicate()[1]
    assert waiting.returncode == 143
    assert not Path(place).exists() and not Path(f"/proc/{inside[0]}").exists()
    assert bundle.status() == ""


def test_a_dump_is_not_interrupted(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the container would stay frozen."""
    bundle.run()
    slow_criu(bundle, monkeypatch, f"sleep 0.5; touch {bundle.path}/ended")
    waiting = bundle.minirun.start("checkpoint", "--leave-running", "c", cwd=bundle.path)
    wait_until(lambda: (bundle.path / "begun").exists())
    waiting.terminate()
    assert waiting.communicate() == ("", "")
    assert waiting.returncode == 0 and (bundle.path / "ended").exists()


def slow_criu(bundle: Bundle, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """From now on CRIU is a script that says when it has begun."""
    program = bundle.path / "criu"
    lines = ("#!/bin/sh", '[ "$1" = check ] && exit 0', f"touch {bundle.path}/begun", script, "")
    program.write_text("\n".join(lines))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bundle.path}:{os.environ['PATH']}")
