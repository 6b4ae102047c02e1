"""What is not the container's own file system is not written to.

A folder of the host is mounted in the container where a GPU's nodes, files, sockets, links or the
loader's cache would be made. Before and after, it is the same, to the times of its folders: also
after a start that failed, and for every planner of edits.
"""

import hashlib
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from gpu import images
from gpu.sandbox import Sandbox
from minirun.core.kernel import mounts
from minirun.core.kernel.architecture import NATIVE
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.operations import WriteFile
from minirun.core.rootfs.own_root import OwnRoot
from minirun.gpu import apply, ldconfig
from minirun.gpu.edits import Edits
from minirun.gpu.simulated import elf
from minirun.gpu.steps import BindMount, CompatLibrary, DeviceNode, Link, Step, Tmpfs
from minirun.gpu.target import Target

GPU = ("--gpus", "0", "--gpu-driver=simulated")
NODES = (("nvidiactl", 195, 255), ("nvidia0", 195, 0), ("nvidia-uvm", 510, 0),
         ("nvidia-uvm-tools", 510, 1))  # fmt: skip


def listing(folder: Path) -> dict[str, Any]:
    """All that can be seen of a folder of the host: a file made and removed again shows, too."""
    found = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        info = path.lstat()
        what = [stat.filemode(info.st_mode), info.st_rdev, info.st_mtime_ns, info.st_ctime_ns]
        if path.is_symlink():
            what.append(os.readlink(path))
        elif path.is_file():
            what.append(hashlib.sha256(path.read_bytes()).hexdigest())
        found[str(path)] = what
    return found


@pytest.fixture
def host(nodes_path: Path) -> Path:
    """A folder of the host, on which device nodes can be made."""
    path = nodes_path / "host"
    path.mkdir()
    return path


def one_line(done: subprocess.CompletedProcess[str], place: str) -> None:
    lines = [line for line in done.stderr.splitlines() if "SIMULATED" not in line]
    assert done.returncode == 125, done.stderr
    assert len(lines) == 1 and f"on the host, whose files are mounted at {place} (" in lines[0]


# --- run -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ("", ":ro"))
@pytest.mark.parametrize("place", ("/dev", "/run", "/etc", "/usr", "/lib/firmware", "/usr/bin/"))
def test_run_in_an_empty_folder(minirun: Program, host: Path, place: str, options: str) -> None:
    before = listing(host)
    done = minirun("run", "--rm", *GPU, "-v", f"{host}:{place}{options}", "busybox", "true")
    assert listing(host) == before
    one_line(done, place.rstrip("/"))
    assert minirun.left() == []


def test_run_with_mount_and_a_folder_behind_a_link(minirun: Program, host: Path) -> None:
    before = listing(host)
    where = f"type=bind,src={host},dst=/var/run/nvidia-persistenced"
    done = minirun("run", "--rm", *GPU, "--mount", where, "debian", "true")
    assert listing(host) == before
    one_line(done, "/run/nvidia-persistenced")


def test_run_with_all_of_it_there(minirun: Program, host: Path) -> None:
    for name, major, minor in NODES:
        os.mknod(host / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    os.mknod(host / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    before = listing(host)
    done = minirun("run", "--rm", *GPU, "-v", f"{host}:/dev", "busybox", "ls", "/dev")
    assert done.stdout.split() == sorted(["null", *(name for name, *_ in NODES)])
    assert done.returncode == 0, done.stderr
    assert listing(host) == before


def test_run_with_another_node_there(minirun: Program, host: Path) -> None:
    os.mknod(host / "nvidiactl", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    before = listing(host)
    done = minirun("run", "--rm", *GPU, "-v", f"{host}:/dev", "busybox", "true")
    assert done.returncode == 125 and "invalid device node: /dev/nvidiactl" in done.stderr
    assert listing(host) == before


def test_run_that_fails_behind_stage_5(minirun: Program, host: Path) -> None:
    """A hook fails when the GPUs are in."""
    before = listing(host)
    done = minirun("run", "--rm", *GPU, "-v", f"{host}:/mnt/x", "busybox", "/nosuch")
    assert done.returncode == 127
    assert listing(host) == before


HOSTS_OWN = """
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /dev
mknod -m 666 /dev/null c 1 3
mknod -m 666 /dev/zero c 1 5
mknod -m 666 /dev/urandom c 1 9
mount -t tmpfs -o mode=755 tmpfs /run
ls -lR --full-time /dev /run > "$BEFORE"
"$@" || echo "status $?"
ls -lR --full-time /dev /run | diff "$BEFORE" -
"""


@pytest.mark.parametrize("folder", ("/dev", "/run"))
def test_the_hosts_own_by_the_same_path(minirun: Program, folder: str, tmp_path: Path) -> None:
    """In a private copy of them: without the guard the nodes would stay on this machine."""
    words = minirun.argv("run", "--rm", *GPU, "-v", f"{folder}:{folder}", "busybox", "true")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", HOSTS_OWN, "sh", *words],
        env=os.environ | {"BEFORE": str(tmp_path / "before")}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout == "status 125\n", done
    assert f"whose files are mounted at {folder} (" in done.stderr


def test_a_volume_of_the_image_is_the_containers_own(minirun: Program, tmp_path: Path) -> None:
    layer = images.make(tmp_path / "store", "x")
    path = layer.parents[1] / "image.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "volumes": ["/run", "/usr"]}))
    done = minirun.at(tmp_path / "store")("run", "--rm", *GPU, "x", "/bin/ls",
                   "/run", "/usr/bin/nvidia-smi")  # fmt: skip
    assert "nvidia-persistenced" in done.stdout and "/usr/bin/nvidia-smi" in done.stdout, done


# --- CDI ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ("/dev", "/run", "/usr", f"/usr/lib/{NATIVE.triplet}"))
def test_cdi(minirun: Program, host: Path, place: str) -> None:
    before = listing(host)
    words = ("run", "--rm", *GPU, "--gpu-mode=cdi", "-v", f"{host}:{place}")
    done = minirun(*words, "busybox", "true")
    assert listing(host) == before
    assert done.returncode == 125, done.stderr
    assert f"on the host, whose files are mounted at {place}" in done.stderr
    assert minirun.left() == []


def test_a_device_that_cdi_adds_below_dev(minirun: Program, host: Path, tmp_path: Path) -> None:
    """Another vendor's spec: its node in a folder of /dev that is the host's."""
    (tmp_path / "spec").mkdir()
    node = {"path": "/dev/dri/card0", "type": "c", "major": 226, "minor": 0}
    device = {"name": "0", "containerEdits": {"deviceNodes": [node]}}
    spec = {"cdiVersion": "0.6.0", "kind": "amd.com/gpu", "devices": [device]}
    (tmp_path / "spec/x.json").write_text(json.dumps(spec))
    words = ("--cdi-spec-dir", str(tmp_path / "spec"), "--device", "amd.com/gpu=0")
    before = listing(host)
    done = minirun("run", "--rm", *words, "-v", f"{host}:/dev/dri", "busybox", "true")
    assert listing(host) == before
    one_line(done, "/dev/dri")


# --- stage 1's nodes ---------------------------------------------------------------------------


def bundle(program: Program, layer: Path, **more: Any) -> str:
    document = json.loads(program("spec", "busybox").stdout)
    document["root"]["path"] = str(layer)
    document["process"] |= {"args": ["/bin/true"], "terminal": False}
    document["mounts"] += more.pop("mounts")
    document["linux"] |= more
    (layer.parent / "config.json").write_text(json.dumps(document))
    return str(layer.parent)


@pytest.mark.parametrize("place", ("/dev", "/dev/", "/dev/dri", "/data"))
def test_nodes_of_a_bundle(minirun: Program, layer: Path, host: Path, place: str) -> None:
    """linux.devices below a bind mount; /data is what the image's /dev leads to."""
    if place == "/data":
        shutil.rmtree(layer / "dev", ignore_errors=True)
        (layer / "data").mkdir()
        (layer / "dev").symlink_to("data")
    row = {"destination": place, "source": str(host), "options": ["bind"]}
    device = {"path": "/dev/dri/card0", "type": "c", "major": 1, "minor": 3}
    (host / "dri").mkdir()
    folder = bundle(minirun, layer, mounts=[row], devices=[device])
    before = listing(host)
    done = minirun("run", "--bundle", folder, "x")
    kept = {path: what for path, what in listing(host).items() if path in before}
    nodes = [path for path in host.rglob("*") if not (path.is_dir() or path.is_file())]
    assert nodes == [], done
    assert place in ("/dev", "/dev/") or done.returncode == 1
    assert kept == before


# --- the applier, for every planner ---------------------------------------------------------------


def in_host_folder(host: Path, step: Step, place: str) -> Callable[[Root], Any]:
    """Bind `host` at `place` of a half-started container, and apply one step."""

    def work(root: Root) -> Any:
        rootfs = os.readlink(f"/proc/self/fd/{root.fd}")
        os.makedirs(rootfs + place, exist_ok=True)
        mounts.mount(str(host), rootfs + place, None, mounts.MS_BIND)
        fresh, one = OwnRoot(Root.at(rootfs).fd), step
        if isinstance(one, CompatLibrary):
            one = one._replace(fd=root.open(one.host_path))
        apply.apply(Edits(steps=(one,)), Target(fresh, rootfs))

    return work


@pytest.mark.parametrize("kind", ("made", "bound", "file", "folder", "socket", "link", "tmpfs",
                                  "compat"))  # fmt: skip
def test_each_step(debian: Sandbox, host: Path, nodes_path: Path, kind: str) -> None:
    """None of what an Edits can hold, of NVIDIA, AMD, Intel, Gaudi or WSL, is made there."""
    source = nodes_path / "source"
    if kind == "socket":
        os.mknod(source, stat.S_IFSOCK | 0o666)
    elif kind == "bound":
        os.mknod(source, stat.S_IFCHR | 0o666, os.makedev(226, 0))
    elif kind == "folder":
        source.mkdir()
    else:
        source.write_text("a file")
    at, whole = "/opt/x/below/it", DeviceNode("/opt/x/below/it", "c", 226, 0)
    steps: dict[str, Step] = {
        "made": whole, "bound": whole._replace(host_path=str(source)),
        "link": Link("to", at), "tmpfs": Tmpfs(at, (WriteFile(f"{at}/a", b"x"),)),
        "compat": CompatLibrary(-1, "/bin/busybox", at),
    }  # fmt: skip
    step = steps.get(kind, BindMount(str(source), at, ()))
    before = listing(host)
    outcome = debian.inside(in_host_folder(host, step, "/opt/x"))
    assert listing(host) == before
    text = "/opt/x/below would be made on the host, whose files are mounted at /opt/x"
    assert outcome["error"].startswith(text)


@pytest.mark.parametrize("kind", ("made", "bound", "file", "folder", "link", "tmpfs"))
def test_each_step_where_it_is_there(
    debian: Sandbox, host: Path, nodes_path: Path, kind: str
) -> None:
    source, there = nodes_path / "source", host / "it"
    if kind in ("made", "bound"):
        for path in (source, there):
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(226, 0))
    elif kind in ("folder", "tmpfs"):
        source.mkdir()
        there.mkdir()
    elif kind == "link":
        there.symlink_to("elsewhere")
    else:
        source.write_text("a file")
        there.write_text("another")
    whole = DeviceNode("/opt/x/it", "c", 226, 0)
    steps: dict[str, Step] = {
        "made": whole, "bound": whole._replace(host_path=str(source)),
        "link": Link("to", "/opt/x/it"), "tmpfs": Tmpfs("/opt/x/it"),
    }  # fmt: skip
    step = steps.get(kind, BindMount(str(source), "/opt/x/it", ()))
    before = listing(host)
    assert debian.inside(in_host_folder(host, step, "/opt/x"))["error"] == ""
    assert listing(host) == before


@pytest.mark.parametrize("same", (True, False))
def test_a_mount_that_the_host_shares(debian: Sandbox, host: Path, same: bool) -> None:
    """What is mounted on a file there would be mounted on the host's file, too."""
    (host / "it").write_text("the host's")
    source = host / "it" if same else host.parent / "source"
    source.write_text("the host's")

    def work(root: Root) -> Any:
        mounts.mount(str(host), str(host), None, mounts.MS_BIND)
        mounts.mount(None, str(host), None, mounts.MS_SHARED)
        step = BindMount(str(source), "/opt/x/it")
        try:
            in_host_folder(host, step, "/opt/x")(root)
        finally:
            rows = Path("/proc/self/mountinfo").read_text().splitlines()
            assert not [row for row in rows if f"{host}/it" in row]

    outcome = debian.inside(work)
    wanted = "" if same else "the host would get what is mounted at /opt/x/it"
    assert outcome["error"].startswith(wanted) and bool(outcome["error"]) is not same


def test_ldconfig(debian: Sandbox, host: Path) -> None:
    """A folder of the host that the image's ld.so.conf names: no link is made or replaced there."""
    machine = NATIVE.machine
    (host / "libx.so.1.2").write_bytes(elf.shared_object("libx.so.1", machine, ("libc.so.6",), ""))
    (host / "liby.so.1.2").write_bytes(elf.shared_object("liby.so.1", machine, ("libc.so.6",), ""))
    (host / "liby.so.1").symlink_to("liby.so.0")
    Path(debian.root, "etc/ld.so.conf.d/own.conf").write_text("/opt/x\n")
    before = listing(host)

    def work(root: Root) -> Any:
        rootfs = os.readlink(f"/proc/self/fd/{root.fd}")
        os.makedirs(f"{rootfs}/opt/x")
        mounts.mount(str(host), f"{rootfs}/opt/x", None, mounts.MS_BIND)
        program = ldconfig.open_host("@/sbin/ldconfig")
        target = Target(OwnRoot(Root.at(rootfs).fd), rootfs, program)
        apply.apply(Edits(ldconfig="@/sbin/ldconfig", library_folders=("/opt/x",)), target)

    assert debian.inside(work)["error"] == ""
    assert listing(host) == before
    assert b"/opt/x/libx.so.1" in Path(debian.root, "etc/ld.so.cache").read_bytes()


def test_what_the_host_gets_while_a_step_fails(debian: Sandbox, host: Path) -> None:
    """The undoing removes what the steps made, and nothing that another program made meanwhile."""
    step = BindMount("/nosuch", "/opt/x/new")

    def work(root: Root) -> Any:
        rootfs = os.readlink(f"/proc/self/fd/{root.fd}")
        os.makedirs(f"{rootfs}/opt/x")
        mounts.mount(str(host), f"{rootfs}/opt/x", None, mounts.MS_BIND)
        target = Target(OwnRoot(Root.at(rootfs).fd), rootfs)
        apply.apply(Edits(steps=(step,)), target, lambda _: (host / "new").write_text("hers"))

    assert "no such file" in debian.inside(work)["error"].lower()
    assert (host / "new").read_text() == "hers"


# --- NVIDIA's programs -------------------------------------------------------------------------


HOOKS = (
    ("create-symlinks", "--link", "to::/opt/x/lib.so"),
    ("chmod", "--mode", "777", "--path", "/opt/x/folder"),
    ("enable-cuda-compat", "--host-driver-version=550.1"),
    ("update-application-profile",),
    ("update-ldcache", "--folder", "/opt/x"),
)


@pytest.mark.parametrize("words", HOOKS, ids=lambda words: words[0])
@pytest.mark.parametrize("place", ("/opt/x", "/etc"))
def test_hooks_of_cdi(
    words: tuple[str, ...], place: str, debian: Sandbox, host: Path, command: str, tmp_path: Path
) -> None:
    (host / "folder").mkdir(mode=0o700)
    (host / "lib.so").symlink_to("elsewhere")
    library = elf.shared_object("libx.so.1", NATIVE.machine, ("libc.so.6",), "")
    (host / "libx.so.1.2").write_bytes(library)
    for name in ("ld.so.cache", "debian_version", "ld.so.conf"):
        (host / name).touch()
    compat = Path(debian.root, "usr/local/cuda/compat")
    compat.mkdir(parents=True)
    (compat / "libcuda.so.560.1").touch()
    Path(debian.root, "opt/x").mkdir(parents=True)
    subprocess.run(["nsenter", f"--mount=/proc/{debian.pid}/ns/mnt", "sh", "-ec",
                    f"mknod {debian.root}/dev/nvidia0 c 195 0; "
                    f"mount --bind {host} {debian.root}{place}"], check=True)  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps({"root": {"path": debian.root}}))
    state = json.dumps({"id": "x", "pid": debian.pid, "bundle": str(tmp_path)})
    before = listing(host)
    enter = ("nsenter", f"--mount=/proc/{debian.pid}/ns/mnt", command, "nvidia-cdi-hook")
    done = subprocess.run([*enter, *words], input=state, cwd=tmp_path, env={}, text=True,
                          capture_output=True, check=False)  # fmt: skip
    assert listing(host) == before, done
    refused = place == "/etc" and words[0] not in ("create-symlinks", "chmod")
    assert bool(done.returncode) is refused, done
    assert ("whose files are mounted at /etc (" in done.stderr) is refused


def test_the_program(debian: Sandbox, host: Path, command: str, store: str) -> None:
    """nvidia-container-cli, called by a hook of another runtime."""
    Path(debian.root, "run").mkdir(exist_ok=True)
    subprocess.run(["nsenter", f"--mount=/proc/{debian.pid}/ns/mnt", "mount", "--bind", str(host),
                    f"{debian.root}/run"], check=True)  # fmt: skip
    before = listing(host)
    words = ("nvidia-container-cli", "--gpu-driver=simulated", "configure", "--no-cgroups",
             f"--pid={debian.pid}", "--utility", "--device=0", debian.root)  # fmt: skip
    done = subprocess.run([command, "--store", store, *words], text=True, capture_output=True,
                          check=False)  # fmt: skip
    assert listing(host) == before
    assert done.returncode == 1
    assert "would be made on the host, whose files are mounted at /run" in done.stderr
