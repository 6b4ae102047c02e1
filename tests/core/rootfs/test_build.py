"""Stage 1's mounts, made for real in a mount namespace: overlay, mounts of config.json, /dev."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from containers import container
from minirun.cgroups import open_cgroup
from minirun.core.config import Config
from minirun.core.errors import ConfigError, MinirunError
from minirun.core.kernel import mounts as m
from minirun.core.rootfs import build, execute
from minirun.core.rootfs.inroot import Root
from minirun.core.stages import s1_clone, s7_exec
from minirun.oci import run_config


def config(bundle: Path, **raw: Any) -> Config:
    return Config({"ociVersion": "1.2.0", "root": {"path": "rootfs"}, **raw}, str(bundle))


def fill(bundle: Path, *rows: dict[str, Any], **raw: Any) -> None:
    linux = {"namespaces": [{"type": "cgroup"}], **raw.pop("linux", {})}
    made = container(bundle, mounts=list(rows), linux=linux, **raw)
    root = Root.at(str(bundle / "rootfs"))
    execute(s1_clone.plan(made), root)
    root.close()


@pytest.fixture
def host(tmp_path: Path) -> Path:
    path = tmp_path / "host"
    (path / "sub").mkdir(parents=True)
    (path / "file").write_text("of the host")
    return path


def test_a_root_without_layers_becomes_a_mount_point(
    tmp_path: Path, tree: Path, isolated: Any, mount_at: Any
) -> None:
    def body() -> None:
        root = build.root_mount(config(tmp_path), [], str(tmp_path)).execute()
        assert mount_at(tree)
        assert os.path.samestat(os.fstat(root.fd), tree.stat())

    isolated(body)


@pytest.mark.parametrize("what", ["link", "file", "nothing"])
def test_a_root_that_is_no_directory(tmp_path: Path, isolated: Any, what: str) -> None:
    if what == "link":
        (tmp_path / "rootfs").symlink_to("/")
    elif what == "file":
        (tmp_path / "rootfs").write_text("")

    def body() -> None:
        with pytest.raises((OSError, ConfigError), match=str(tmp_path / "rootfs")):
            build.root_mount(config(tmp_path), [], str(tmp_path)).execute()
        assert f" {tmp_path}" not in Path("/proc/self/mountinfo").read_text()

    isolated(body)


@pytest.mark.parametrize("odd", ["plain", "a,b:c\\d", "with space"])
def test_the_overlay_of_layers(tmp_path: Path, isolated: Any, odd: str) -> None:
    bundle = tmp_path / odd
    layers = [bundle / "layer0", bundle / f"layer1{odd}"]
    for path in (*layers, bundle / "rootfs", bundle / "upper", bundle / "work"):
        path.mkdir(parents=True)
    (layers[0] / "below").write_text("0")
    (layers[0] / "both").write_text("0")
    (layers[1] / "both").write_text("1")

    def body() -> None:
        build.root_mount(config(bundle), [str(layer) for layer in layers], str(bundle)).execute()
        rootfs = bundle / "rootfs"
        assert (rootfs / "below").read_text() == "0"
        assert (rootfs / "both").read_text() == "1", "the last layer is the topmost"
        (rootfs / "below").write_text("changed")
        (rootfs / "both").unlink()

    isolated(body)
    assert (layers[0] / "below").read_text() == "0"
    assert (layers[1] / "both").read_text() == "1"
    assert (bundle / "upper/below").read_text() == "changed"
    assert stat.S_ISCHR((bundle / "upper/both").stat().st_mode), "a whiteout"


@pytest.mark.parametrize("count", [200, 500])
def test_more_layers_than_a_page_of_options_takes(
    tmp_path: Path, tree: Path, isolated: Any, count: int
) -> None:
    layers = [tmp_path / f"a-rather-long-name/{number}" for number in range(count)]
    for number, layer in enumerate(layers):
        layer.mkdir(parents=True)
        (layer / f"file{number}").touch()
        (layer / "last").write_text(str(number))

    def body() -> None:
        before = os.listdir("/proc/self/fd")
        for name in ("upper", "work"):
            (tmp_path / name).mkdir()
        root = build.root_mount(config(tmp_path), [*map(str, layers)], str(tmp_path)).execute()
        assert len(os.listdir(tree)) == count + 1
        assert (tree / "last").read_text() == str(count - 1)
        assert len(os.listdir("/proc/self/fd")) == len(before) + 1
        root.close()

    isolated(body)


ROWS = run_config.example()["mounts"]


def test_the_mounts_that_run_asks_for(
    tmp_path: Path, tree: Path, isolated: Any, mount_at: Any
) -> None:
    def body() -> None:
        fill(tmp_path, *ROWS)
        for row in ROWS:
            found = mount_at(f"{tree}{row['destination']}")
            if row["type"] == "cgroup":
                assert found["fstype"] in ("tmpfs", "cgroup2")
                continue
            assert found["fstype"] == row["type"]
            given = found["options"].split(",") + found["data"].split(",")
            wanted = {"nosuid", "noexec", "nodev", "ro", "mode=755", "gid=5"} & set(row["options"])
            assert wanted <= set(given)
        assert (tree / "proc/self/status").exists()
        assert stat.S_IMODE((tree / "dev/shm").stat().st_mode) == 0o1777

    isolated(body)


def test_the_devices_and_links_that_every_container_has(
    tmp_path: Path, tree: Path, isolated: Any
) -> None:
    def body() -> None:
        fill(tmp_path, *ROWS)
        found = {}
        for name in os.listdir(tree / "dev"):
            info = (tree / "dev" / name).lstat()
            if stat.S_ISCHR(info.st_mode):
                assert stat.S_IMODE(info.st_mode) == 0o666
                found[name] = (os.major(info.st_rdev), os.minor(info.st_rdev))
        assert found == {
            "null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9),
            "tty": (5, 0),
        }  # fmt: skip
        links = {p.name: os.readlink(p) for p in (tree / "dev").iterdir() if p.is_symlink()}
        assert links == {
            "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
            "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
        }  # fmt: skip

    isolated(body)


def test_devices_of_config_json(tmp_path: Path, tree: Path, isolated: Any) -> None:
    devices = [
        {"type": "c", "path": "/dev/a", "major": 240, "minor": 1, "fileMode": 0o20640, "uid": 3},
        {"type": "u", "path": "/dev/deep/b", "major": 240, "minor": 2, "gid": 4},
        {"type": "b", "path": "/dev/c", "major": 241, "minor": 300000, "fileMode": 0o600},
        {"type": "p", "path": "/dev/d"},
        {"type": "c", "path": "/dev/full", "major": 1, "minor": 3, "fileMode": 0o444},
    ]

    def body() -> None:
        fill(tmp_path, {"destination": "/dev", "type": "tmpfs"}, linux={"devices": devices})
        rows = {name: (tree / "dev" / name).stat() for name in ("a", "deep/b", "c", "d", "full")}
        assert stat.S_IMODE(rows["a"].st_mode) == 0o640
        assert (rows["a"].st_uid, rows["deep/b"].st_gid) == (3, 4)
        assert stat.S_ISCHR(rows["deep/b"].st_mode)
        assert stat.S_ISBLK(rows["c"].st_mode)
        assert rows["c"].st_rdev == os.makedev(241, 300000)
        assert stat.S_ISFIFO(rows["d"].st_mode)
        assert rows["full"].st_rdev == os.makedev(1, 3), "config.json wins over the default"

    isolated(body)


@pytest.mark.parametrize("rows", [[], [{"destination": "/tmp", "type": "tmpfs"}]])
def test_without_a_mount_at_dev_the_root_filesystem_gets_the_devices(
    tmp_path: Path, tree: Path, isolated: Any, rows: list[dict[str, Any]]
) -> None:
    wanted = {"devices": [{"type": "c", "path": "/x/null", "major": 1, "minor": 3}]}
    for _ in range(2):  # the second time they are there
        isolated(lambda: fill(tmp_path, *rows, linux=wanted))
        assert (tree / "x/null").is_char_device()
        assert sorted(os.listdir(tree / "dev")) == [
            "fd", "full", "null", "ptmx", "random", "stderr", "stdin", "stdout", "tty", "urandom",
            "zero",
        ]  # fmt: skip


def test_a_link_at_dev_leads_to_a_place_inside(tmp_path: Path, tree: Path, isolated: Any) -> None:
    (tree / "dev").symlink_to("/elsewhere")
    isolated(lambda: fill(tmp_path))
    assert (tree / "elsewhere/null").is_char_device()


@pytest.mark.parametrize("path", ["/dev", "/dev/", "/x/..//dev/."])
def test_a_dev_of_the_host_is_left_alone(
    tmp_path: Path, tree: Path, host: Path, isolated: Any, path: str
) -> None:
    (tree / "x").mkdir()
    row = {"destination": path, "options": ["rbind"], "source": str(host)}
    isolated(lambda: fill(tmp_path, row))
    assert sorted(os.listdir(host)) == ["file", "sub"]


@pytest.mark.parametrize("row", [{"type": "bind"}, {"options": ["bind"]}, {"options": ["rbind"]}])
def test_binds(
    tmp_path: Path, tree: Path, host: Path, isolated: Any, mount_at: Any, row: dict[str, Any]
) -> None:
    recursive = row.get("options") == ["rbind"]

    def body() -> None:
        m.mount("tmpfs", str(host / "sub"), "tmpfs")
        fill(tmp_path, {"destination": "/mnt", "source": str(host), **row})
        assert (tree / "mnt/file").read_text() == "of the host"
        assert bool(mount_at(tree / "mnt/sub")) == recursive

    isolated(body)


def test_a_relative_source_is_taken_from_the_bundle(
    tmp_path: Path, tree: Path, host: Path, isolated: Any
) -> None:
    def body() -> None:
        fill(tmp_path, {"destination": "/mnt", "type": "bind", "source": "host"})
        assert (tree / "mnt/file").read_text() == "of the host"

    isolated(body)


@pytest.mark.parametrize(("word", "below"), [("ro", True), ("rro", False)])
def test_read_only_and_recursively_read_only(
    tmp_path: Path, tree: Path, host: Path, isolated: Any, word: str, below: bool
) -> None:
    def body() -> None:
        m.mount("tmpfs", str(host / "sub"), "tmpfs")
        row = {"destination": "/mnt", "source": str(host), "options": ["rbind", word]}
        fill(tmp_path, row)
        assert os.access(tree / "mnt", os.W_OK) is False
        assert os.access(tree / "mnt/sub", os.W_OK) is below
        assert os.access(host, os.W_OK)

    isolated(body)


@pytest.mark.parametrize(("word", "shared"), [("rprivate", ""), ("rslave", "master:")])
def test_propagation_of_a_bind(
    tmp_path: Path, tree: Path, host: Path, isolated: Any, mount_at: Any, word: str, shared: str
) -> None:
    def body() -> None:
        m.mount("tmpfs", str(host), "tmpfs")
        m.mount(None, str(host), None, m.MS_SHARED)
        fill(tmp_path, {"destination": "/mnt", "source": str(host), "options": ["rbind", word]})
        found = mount_at(tree / "mnt")["shared"]
        assert found.startswith(shared) if shared else not found

    isolated(body)


def test_a_source_that_is_not_there(tmp_path: Path, tree: Path, isolated: Any) -> None:
    def body() -> None:
        row = {"destination": "/mnt", "type": "bind", "source": "/nosuch/source"}
        with pytest.raises(ConfigError, match=r"mounts\[1\]\.source: /nosuch/source: no such"):
            fill(tmp_path, {"destination": "/tmp", "type": "tmpfs"}, row)

    isolated(body)
    assert not (tree / "mnt").exists()


def test_later_mounts_lie_over_earlier_ones(tmp_path: Path, tree: Path, isolated: Any) -> None:
    def body() -> None:
        rows = [
            {"destination": "/mnt", "type": "tmpfs", "source": "first"},
            {"destination": "/mnt/below", "type": "tmpfs", "source": "second"},
            {"destination": "/mnt", "type": "tmpfs", "source": "third"},
        ]
        fill(tmp_path, *rows)
        assert list((tree / "mnt").iterdir()) == []

    isolated(body)


def test_a_procfs_may_be_bound_at_proc(tmp_path: Path, tree: Path, isolated: Any) -> None:
    """Nothing else may: it would show files of its own as the kernel's."""
    row = {"destination": "/proc", "type": "bind", "source": "/proc", "options": ["rbind"]}

    def body() -> None:
        fill(tmp_path, row)
        assert os.path.ismount(tree / "proc") and (tree / "proc/self/stat").exists()

    isolated(body)

    def other() -> None:
        with pytest.raises(ConfigError, match=r"/proc"):
            fill(tmp_path, {**row, "source": str(tree)})

    isolated(other)


def test_a_tmpfs_has_the_mode_of_the_directory_below(
    tmp_path: Path, tree: Path, isolated: Any
) -> None:
    """Unless an option says another; where there was none, any user can write in it."""
    (tree / "there").mkdir()
    (tree / "there").chmod(0o1751)
    (tree / "said").mkdir()

    def body() -> None:
        rows = [{"destination": f"/{name}", "type": "tmpfs"} for name in ("there", "new")]
        fill(tmp_path, *rows, {**rows[0], "destination": "/said", "options": ["mode=0700"]})
        found = [stat.S_IMODE((tree / name).stat().st_mode) for name in ("there", "new", "said")]
        assert found == [0o1751, 0o1777, 0o700]

    isolated(body)


@pytest.mark.parametrize("kind", ["proc", "sysfs"])
@pytest.mark.parametrize("what", ["link to the host", "link inside", "link above", "file"])
def test_proc_and_sys_behind_a_link_are_refused(
    tmp_path: Path, tree: Path, isolated: Any, kind: str, what: str
) -> None:
    """CVE-2019-19921, CVE-2023-27561: the image chooses where the checks of /proc are made."""
    path = "/x/y"
    (tree / "real/y").mkdir(parents=True)
    if what == "link above":
        (tree / "x").symlink_to("real")
    else:
        (tree / "x").mkdir()
        if what == "file":
            (tree / "x/y").write_text("")
        else:
            (tree / "x/y").symlink_to("/tmp" if "host" in what else "/real/y")

    def body() -> None:
        with pytest.raises(ConfigError, match=r"mounts\[0\]\.destination: /x/y must be mounted on"):
            fill(tmp_path, {"destination": path, "type": kind})

    isolated(body)


def test_a_file_system_that_the_kernel_lacks(tmp_path: Path, tree: Path, isolated: Any) -> None:
    def body() -> None:
        with pytest.raises(MinirunError, match=r"nosuchfs at /mnt: mount: /mnt: No such device"):
            fill(tmp_path, {"destination": "/mnt", "type": "nosuchfs"})

    isolated(body)


def test_the_view_of_the_cgroups(tmp_path: Path, tree: Path, isolated: Any, mount_at: Any) -> None:
    """The order in which init does it: in its cgroup first; read-only when all is there."""
    cgroup = open_cgroup("/minirun/never-made")
    view = cgroup.mounts_for_container()
    options = ["nosuid", "noexec", "nodev", "relatime", "ro"]
    row = {"destination": "/sys/fs/cgroup", "type": "cgroup", "options": options}

    def body() -> None:
        root = Root.at(str(tree))
        own = {"namespaces": [{"type": "cgroup"}]}
        made = container(tmp_path, mounts=[row], linux=own)
        made.cgroup = cgroup
        execute(s1_clone.plan(made), root)
        execute(s7_exec.plan(made), root)
        top = tree / "sys/fs/cgroup"
        for mount in view.mounts:
            found = mount_at(top / mount.path)
            assert found["fstype"] == mount.fstype
            assert {"ro", "nosuid", "noexec", "nodev"} <= set(found["options"].split(","))
        for target, name in view.links:
            assert os.readlink(top / name) == target
        with pytest.raises(OSError, match="Read-only file system"):
            (top / "new").mkdir()

    isolated(body)
