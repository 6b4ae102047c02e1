"""What cannot be saved or restored: one line that says why, and the container goes on."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import Program, cgroup, wait_until
from minirun.core.errors import MinirunError
from minirun.core.rootfs.inroot import Root
from minirun.toolkit.criu import mounts, program, streams
from toolkit.criu.conftest import Bundle


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Check that it is one line with runc's exit status."""
    assert done.returncode == 1
    assert done.stderr.startswith("minirun: ") and done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("", ("criu is not installed", "PATH")),
        ("echo 'Error (criu/vdso.c:1): no such kernel' >&2; exit 1", ("check: no such kernel",)),
        ("exit 1", ("check: it said nothing",)),
    ],
)
def test_without_a_criu_that_works(
    minirun: Program, layer: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: list[str]
) -> None:
    bundle = Bundle(minirun, layer)
    bundle.run()
    place = bundle.path / "bin"
    place.mkdir()
    if script:
        (place / "criu").write_text(f"#!/bin/sh\n{script}\n")
        (place / "criu").chmod(0o755)
    monkeypatch.setenv("PATH", str(place))
    refused(bundle.checkpoint(), *words)
    assert bundle.status() == "running" and not bundle.images.exists()
    bundle.images.mkdir()
    (bundle.images / "inventory.img").touch()
    refused(restore(bundle, "d"), *words)
    assert bundle.status("d") == ""


def restore(bundle: Bundle, name: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Try to restore it, its output and errors to a pipe."""
    places = ("--image-path", str(bundle.images), "--bundle", str(bundle.path))
    return bundle.minirun("restore", "-d", *places, *flags, name)


def test_a_container_that_does_not_run(bundle: Bundle) -> None:
    refused(bundle.checkpoint(), "container 'c' does not exist")
    with bundle.output.open("w") as file:
        argv = bundle.minirun.argv("create", "--bundle", str(bundle.path), "c")
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=True)
    refused(bundle.checkpoint(), "cannot be checkpointed in created state")
    bundle.minirun("kill", "c", "KILL")
    wait_until(lambda: bundle.status() == "stopped")
    refused(bundle.checkpoint(), "cannot be checkpointed in stopped state")
    assert not bundle.images.exists()


def test_a_container_of_an_image(bundle: Bundle) -> None:
    bundle.minirun("run", "-d", "--name", "c", "busybox", "sleep", "100")
    refused(bundle.checkpoint(), "`run IMAGE`", "its own layer goes with it", "bundle")
    assert bundle.status() == "running" and not bundle.images.exists()


def test_gpus(bundle: Bundle) -> None:
    bundle.minirun(
        "run", "-d", "--gpus", "0", "--gpu-driver", "simulated", "--name", "c", "busybox",
        "sleep", "100",
    )  # fmt: skip
    refused(bundle.checkpoint(), "with GPUs cannot be checkpointed", "cuda-checkpoint")
    assert bundle.status() == "running" and not bundle.images.exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--lazy-pages",), ("--lazy-pages is not supported",)),
        (("--manage-cgroups-mode", "hard"), ("invalid --manage-cgroups-mode 'hard'", "strict")),
        (("--empty-ns", "ipc"), ("invalid --empty-ns 'ipc'", "network")),
        (("--parent-path", "/x"), ("--parent-path /x: must be relative",)),
        (("--parent-path", "../x"), ("no such directory",)),
        (("--page-server", "host"), ("invalid --page-server 'host'",)),
        (("--status-fd", "9"), ("--lazy-pages is not supported",)),
    ],
)
def test_flags(bundle: Bundle, flags: tuple[str, ...], words: tuple[str, ...]) -> None:
    bundle.run()
    refused(bundle.checkpoint(*flags), *words)
    assert bundle.status() == "running" and not bundle.images.exists()


def test_places(bundle: Bundle) -> None:
    bundle.run()
    bundle.images.write_text("a file")
    refused(bundle.checkpoint(), f"{bundle.images}: is not a directory")
    refused(restore(bundle, "d"), f"{bundle.images}: no such directory")
    bundle.images.unlink()
    refused(restore(bundle, "d"), f"{bundle.images}: no such directory")
    bundle.images.mkdir()
    refused(restore(bundle, "d"), f"{bundle.images}: is not a checkpoint")
    flags = ("--image-path", f"{bundle.path}/no/such", "c")
    refused(bundle.minirun("checkpoint", *flags), "no/such", "No such file")
    assert bundle.status() == "running" and bundle.status("d") == ""


def test_a_dump_that_fails(bundle: Bundle) -> None:
    """A descriptor of a file that is not in there, and is none of the streams."""
    argv = bundle.minirun.argv("run", "-d", "--preserve-fds", "1", "-b", str(bundle.path), "c")
    script = f'exec "$@" 3>{bundle.output} </dev/null >/dev/null 2>&1'
    subprocess.run(["sh", "-c", script, "sh", *argv], check=True)
    wait_until(lambda: (bundle.rootfs / "count").exists())
    done = bundle.checkpoint()
    log = bundle.images / "dump.log"
    refused(done, "criu dump: ", "the container runs on", f"its log is {log}")
    said = done.stderr.partition("criu dump: ")[2].partition(" (")[0]
    assert said in log.read_text()
    number = bundle.count()[1]
    wait_until(lambda: bundle.count()[1] > number + 3)
    assert bundle.status() == "running"


def test_a_restore_that_fails(bundle: Bundle) -> None:
    """Every trace of it goes: its name, its cgroup, and what CRIU has made so far."""
    bundle.run()
    place = cgroup(bundle.minirun, "c")
    assert bundle.checkpoint().returncode == 0
    (bundle.images / "core-1.img").write_bytes(b"spoilt")
    done = restore(bundle, "c")
    log = bundle.images / "restore.log"
    refused(done, "criu restore: ", "nothing is left of the container", f"its log is {log}")
    assert bundle.status() == ""
    assert not Path(place).exists()
    assert not list(bundle.minirun.root.glob("[!.]*"))


def test_a_name_that_is_taken(bundle: Bundle) -> None:
    bundle.run()
    assert bundle.checkpoint("--leave-running").returncode == 0
    init = bundle.init()
    refused(restore(bundle, "c"), "container with given ID already exists")
    assert (bundle.status(), bundle.init()) == ("running", init)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"hooks": {"createRuntime": [{"path": "/bin/true"}]}},
            ("createRuntime hooks cannot be restored",),
        ),
        ({"process": {"terminal": True}}, ("with a terminal cannot be restored",)),
        ({"linux": {"uidMappings": []}}, ("in a user namespace cannot be restored",)),
        (
            {"hooks": {"prestart": [{"path": "/usr/bin/nvidia-container-runtime-hook"}]}},
            ("with GPUs cannot be restored",),
        ),
    ],
)
def test_bundles(bundle: Bundle, change: dict[str, dict[str, object]], words: list[str]) -> None:
    bundle.images.mkdir()
    (bundle.images / "inventory.img").touch()
    for key, values in change.items():
        bundle.config[key] = {**bundle.config.get(key, {}), **values}
    if "uidMappings" in json.dumps(change):
        maps = [{"containerID": 0, "hostID": 100000, "size": 1000}]
        bundle.config["linux"] |= {"uidMappings": maps, "gidMappings": maps}
        bundle.config["linux"]["namespaces"].append({"type": "user"})
    bundle.save()
    refused(restore(bundle, "d"), *words)
    assert not list(bundle.minirun.root.glob("[!.]*"))


def test_a_terminal(bundle: Bundle) -> None:
    bundle.config["process"]["terminal"] = True
    bundle.command("sleep", "100")
    argv = bundle.minirun.argv("run", "--bundle", str(bundle.path), "c")
    with bundle.output.open("w") as file:
        running = subprocess.Popen(
            ["script", "-qec", " ".join(argv), "/dev/null"],
            stdin=subprocess.PIPE, stdout=file, stderr=file,
        )  # fmt: skip
    try:
        wait_until(lambda: bundle.status() == "running")
        refused(bundle.checkpoint(), "a container with a terminal cannot be checkpointed")
        assert bundle.status() == "running" and not bundle.images.exists()
    finally:
        bundle.minirun("delete", "-f", "c")
        running.communicate()


def test_hooks(bundle: Bundle) -> None:
    bundle.config["hooks"] = {"createRuntime": [{"path": "/bin/true"}]}
    bundle.save()
    bundle.run()
    refused(bundle.checkpoint(), "with createRuntime hooks cannot be checkpointed")
    assert bundle.status() == "running" and not bundle.images.exists()


@pytest.mark.parametrize("kind", ["cgroup", "time"])
def test_a_namespace_by_path(bundle: Bundle, kind: str) -> None:
    rows = [row for row in bundle.config["linux"]["namespaces"] if row["type"] != kind]
    bundle.config["linux"]["namespaces"] = [*rows, {"type": kind, "path": f"/proc/self/ns/{kind}"}]
    bundle.save()
    bundle.images.mkdir()
    (bundle.images / "inventory.img").touch()
    refused(restore(bundle, "c"), f"that joined a {kind} namespace by path cannot be restored")


def test_a_user_namespace(bundle: Bundle) -> None:
    with tempfile.TemporaryDirectory(prefix="minirun-test.") as place:
        os.chmod(place, 0o711)  # tmp_path is no place that it could reach
        bundle.minirun.named = Path(place, "containers")
        flags = ("--uidmap", "0:100000:65536", "--name", "c")
        bundle.minirun("run", "-d", *flags, "busybox", "sleep", "100")
        refused(bundle.checkpoint(), "in a user namespace cannot be checkpointed")
        assert bundle.status() == "running" and not bundle.images.exists()
        bundle.minirun.clean()


def test_a_bind_that_is_gone(bundle: Bundle) -> None:
    row = {"destination": "/data", "type": "bind", "source": str(bundle.path), "options": ["bind"]}
    bundle.config["mounts"].append(row)
    bundle.save()
    bundle.run()
    assert bundle.checkpoint().returncode == 0
    del bundle.config["mounts"][-1]
    bundle.save()
    refused(restore(bundle, "c"), "nothing is bound at /data")
    assert bundle.status() == ""


@pytest.mark.parametrize(
    ("below", "words"),
    [("..", "cross-device link"), ("link", "symbolic links"), ("none", "no such file")],
)
def test_a_way_out_of_what_is_bound(bundle: Bundle, below: str, words: str) -> None:
    """mounts.json may have come with an archive, and a volume is written by containers."""
    data = bundle.path / "data"
    data.mkdir()
    (data / "link").symlink_to("/etc")
    row = {"destination": "/data", "type": "bind", "source": str(data), "options": ["bind"]}
    bundle.config["mounts"].append(row)
    bundle.save()
    bundle.run()
    assert bundle.checkpoint().returncode == 0
    found = json.loads((bundle.images / mounts.FILE).read_text())
    found["/data"] = ["/data", below]
    (bundle.images / mounts.FILE).write_text(json.dumps(found))
    refused(restore(bundle, "c"), f"{data}/{below}: ", words)
    assert bundle.status() == ""


def test_a_link_where_a_mount_was(bundle: Bundle) -> None:
    """Or CRIU would mount the container's /proc over a directory of the host."""
    bundle.run()
    assert bundle.checkpoint().returncode == 0
    (bundle.rootfs / "proc").rmdir()
    (bundle.rootfs / "proc").symlink_to(bundle.path)
    refused(restore(bundle, "c"), "/proc: is a link")
    assert bundle.status() == ""


@pytest.mark.parametrize("name", [mounts.FILE, streams.FILE])
@pytest.mark.parametrize("text", [None, "no json", "[1", '"text"'])
def test_spoilt_files(bundle: Bundle, name: str, text: str | None) -> None:
    bundle.run()
    assert bundle.checkpoint().returncode == 0
    (bundle.images / name).unlink()
    if text is not None:
        (bundle.images / name).write_text(text)
    refused(restore(bundle, "c"), name)
    assert bundle.status() == ""


def test_the_reason_is_found() -> None:
    text = (
        "(00.1) Error (criu/util.c:1): rlimit: Can't setup RLIMIT_NOFILE\n"
        "Error: ipv4: Address already assigned.\n"
        "(00.2)     17: Error (criu/files.c:9): the reason (of all)\n"
        "(00.3) Error (criu/cr-dump.c:2): Dumping FAILED.\n"
    )
    assert program.complaint(text) == "the reason (of all)"
    assert program.complaint("first\nlast\n\n") == "last"
    assert program.complaint("") == "it said nothing"


def test_links_are_seen_wherever_they_are(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    from minirun.core.config import Config

    config, root = Config({"root": {"path": str(tmp_path)}}, "/"), Root.at(str(tmp_path))
    mounts.refuse_links(config, root, {"/": ["", ""], "/dir": ["", ""], "/dir/none": ["", ""]})
    for place in ("/link", "/link/passwd"):
        with pytest.raises(MinirunError, match="is a link"):
            mounts.refuse_links(config, root, {place: ["", ""]})
    root.close()
