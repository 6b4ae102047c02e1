"""Images of a real registry, put there by skopeo: pulled, they are the trees that umoci unpacks."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import STORE
from required import installed
from rootfs_tools import catalogue
from rootfs_tools.archives import saving
from rootfs_tools.registry.pull import pull
from tests.rootfs_tools.layouts import LayoutFolder, listing, member, tar, umoci
from tests.rootfs_tools.registry import real
from tests.rootfs_tools.registry.lying import liar, reply
from tests.rootfs_tools.test_unpack_layer import BASE, CASES, D, shown, without_times


def many(count: int) -> list[bytes]:
    return [
        tar(member(f"d{n % 7}/", D), member(f"d{n % 7}/f{n}", content=b"%d" % n),
            member(f"d{n % 5}/.wh.f{n - 5}"))
        for n in range(count)
    ]  # fmt: skip


def based(*cases: str) -> list[bytes]:
    return [tar(*BASE), *(tar(*layer) for case in cases for layer in CASES[case])]


CUDA: dict[str, Any] = {
    "Env": ["PATH=/usr/local/nvidia/bin:/bin", "NVIDIA_VISIBLE_DEVICES=all",
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"],
    "Labels": {"maintainer": "Mona", "com.nvidia.cudnn.version": "9"},
    "Entrypoint": ["/entry.sh"], "StopSignal": "SIGTERM", "WorkingDir": "/etc",
}  # fmt: skip
IMAGES: dict[str, tuple[list[bytes], dict[str, Any], list[str]]] = {
    "whiteouts": (based("a folder is removed", "opaque", "through a link"), {}, []),
    "odd": (based("odd names", "sparse", "devices"), {}, []),
    "attributes": (based("attributes", "owners and modes", "access control lists"), {}, []),
    "links": (based("a hard link below", "a folder becomes a link"), {}, []),
    "layers40": (many(40), {}, []),
    "layers130": (many(130), {}, []),
    "zstd": (based("a removed folder comes back"), {}, ["--dest-compress-format=zstd"]),
    "cuda": (based("opaque, deep"), CUDA, []),
    "docker": (based("nothing of it is named"), {}, ["--format=v2s2"]),
}
NEW = {"docker": ("one", "one/two"), "odd": ("sparse",)}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with real.registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real.no_settings(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", IMAGES)
def test_a_pulled_tree_is_umocis(name: str, host: str, tmp_path: Path) -> None:
    installed("umoci")
    layers, config, options = IMAGES[name]
    folder = LayoutFolder(tmp_path / "layout", *layers, **config)
    real.fill(host, f"trees/{name}:1", folder.path, "--dest-tls-verify=false", *options)
    image = pull(str(tmp_path / "store"), f"{host}/trees/{name}:1")
    new = (".", *NEW.get(name, ()))
    wanted = without_times(listing(umoci(folder, tmp_path / "umoci")), new)
    assert without_times(shown(image.layers, tmp_path / "own"), new) == wanted
    [record] = (tmp_path / "store/images").glob("*/image.json")
    found = json.loads(record.read_text())
    assert found["env"] == config.get("Env", [])
    assert found["labels"] == config.get("Labels", {})
    assert found["stop_signal"] == config.get("StopSignal", "")


@pytest.fixture(scope="module")
def podman() -> Iterator[Callable[..., str]]:
    """podman with storage of its own.

    Its driver vfs unpacks layer by layer into one tree. overlay would put each into a directory of
    its own, without a look at those below: a folder that one of them shows by a link is lost then.
    """
    program = installed("podman")
    home = tempfile.mkdtemp(prefix="mrt-")  # runroot has at most 50 characters
    argv = [
        program, "--root", f"{home}/root", "--runroot", f"{home}/run",
        "--tmpdir", f"{home}/tmp", "--storage-driver", "vfs", "--events-backend", "none",
    ]  # fmt: skip

    def run(*args: str) -> str:
        env = os.environ | {"HOME": home}
        for setting in ("CONTAINERS_REGISTRIES_CONF", "REGISTRY_AUTH_FILE"):
            env.pop(setting, None)
        done = subprocess.run([*argv, *args], check=False, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    yield run
    run("image", "umount", "--all", "--force")
    shutil.rmtree(home)


@pytest.mark.parametrize("name", sorted(IMAGES.keys() - {"links"}))
def test_a_pulled_tree_is_podmans(
    name: str, host: str, podman: Callable[..., str], tmp_path: Path
) -> None:
    """Not "links": of a hard link's owner podman takes the new entry's word, umoci the file's."""
    layers, config, options = IMAGES[name]
    folder = LayoutFolder(tmp_path / "layout", *layers, **config)
    real.fill(host, f"podman/{name}:1", folder.path, "--dest-tls-verify=false", *options)
    image = pull(str(tmp_path / "store"), f"{host}/podman/{name}:1")
    podman("pull", "-q", "--tls-verify=false", f"{host}/podman/{name}:1")
    mounted = podman("image", "mount", f"{host}/podman/{name}:1")
    wanted, found = listing(Path(mounted)), shown(image.layers, tmp_path / "own")
    del wanted["."], found["."]  # podman makes it 0555 if no layer names it
    # podman does not put back when a directory was changed
    folders = [path for path, row in found.items() if row[0].startswith("d")]
    new = (*folders, *NEW.get(name, ()))
    assert without_times(found, new) == without_times(wanted, new)


@pytest.mark.parametrize("name", ["busybox", "debian"])
def test_whole_systems(name: str, host: str, tmp_path: Path) -> None:
    """A system of Debian's packages, saved, put into a registry, and pulled, is what it was."""
    with saving.collected(STORE, [name]) as found:
        (tmp_path / "layout").mkdir()
        saving.write(found, "oci-dir", saving.FolderTarget(str(tmp_path / "layout")))
    argv = [installed("skopeo"), "copy", "--dest-tls-verify=false"]
    argv += [f"oci:{tmp_path}/layout", f"docker://{host}/systems/{name}:1"]
    subprocess.run(argv, check=True, capture_output=True)
    image = pull(str(tmp_path / "store"), f"{host}/systems/{name}:1")
    [layer] = catalogue.resolve(STORE, name).layers
    assert listing(Path(image.layers[0])) == listing(Path(layer))


def test_the_registry_has_zstd_and_docker_s_types(host: str, tmp_path: Path) -> None:
    for name, words in (("zstd", "tar+zstd"), ("docker", "vnd.docker.distribution.manifest.v2")):
        layers, config, options = IMAGES[name]
        folder = LayoutFolder(tmp_path / name, *layers, **config)
        real.fill(host, f"types/{name}:1", folder.path, "--dest-tls-verify=false", *options)
        argv = [installed("skopeo"), "inspect", "--raw", "--tls-verify=false",
                f"docker://{host}/types/{name}:1"]  # fmt: skip
        assert words in subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_by_digest(host: str, tmp_path: Path) -> None:
    """It gets a name of its own, which a later digest does not take away."""
    found = []
    for number in (1, 2):
        layers = based(*["opaque"] * number)
        folder = LayoutFolder(tmp_path / str(number), *layers)
        real.fill(host, "digests/app:1", folder.path, "--dest-tls-verify=false")
        found.append(f"{host}/digests/app@{folder.top['digest']}")
    store = str(tmp_path / "store")
    for number, name in enumerate(found, 1):
        image = pull(store, name)
        assert image.digest == name.partition("@")[2]
        assert len(image.layers) == 1 + number
    assert pull(store, found[0]).name == f"{host}/digests/app:sha256-{found[0][-64:][:12]}"


def test_eight_at_once_download_once(tmp_path: Path) -> None:
    layers = [tar(member(f"f{n}", content=b"%d" % n * 100_000)) for n in range(3)]
    with liar() as one:
        digests = one.image("app", *layers)
        for digest, data in zip(digests, layers, strict=True):
            one.routes[f"/v2/app/blobs/{digest}"] = reply(data)
        code = "import sys; from rootfs_tools.registry.pull import pull; pull(*sys.argv[1:])"
        argv = [sys.executable, "-c", code, str(tmp_path / "store"), f"{one.host}/app:1"]
        crowd = [subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) for _ in range(8)]
        said = [each.communicate()[1] for each in crowd]
        assert said == [""] * 8
        assert [each.returncode for each in crowd] == [0] * 8
        for digest in digests:
            assert len(one.asked(digest)) == 1
