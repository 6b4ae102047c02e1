"""nvidia-ctk runtime configure beside containerd: what it merges afterwards lacks nothing.

Judged by `containerd config dump`, before and after: by the containerd that this machine has, and
by those of two more releases of Debian (1.7 takes a plugin's section whole from the last file that
has it, 2.1 merges it). Debian has no containerd that reads version 4 of the format; what 2.3's
mergeConfig does with a file is what a table of cases holds here against every version.
"""

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from debian_packages import Archive, unpack
from required import installed

NAMES = {2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
USERS = """\
# the user's own
version = {version}
root = "/data/containerd"
imports = ["{folder}/conf.d/*.toml"]
[plugins."{cri}"]
{image}
device_ownership_from_security_context = true
cdi_spec_dirs = ["/a", "/b"]
[plugins."{cri}".cni]
conf_dir = "/data/cni"
[plugins."{images}".registry]
config_path = "/etc/containerd/certs.d"
[plugins."{cri}".containerd]
{default}
[plugins."{cri}".containerd.runtimes.runc]
{type}
pod_annotations = ["a", "b"]
[plugins."{cri}".containerd.runtimes.runc.options]
SystemdCgroup = true
[plugins."{cri}".containerd.runtimes.kata]
runtime_type = "io.containerd.kata.v2"
[plugins."io.containerd.gc.v1.scheduler"]
mutation_threshold = 7
"""
RUNC = 'runtime_type = "io.containerd.runc.v2"'
NEIGHBOUR = """\
version = {version}
[plugins."{cri}"]
max_container_log_line_size = 77
[plugins."{cri}".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."{cri}".containerd.runtimes.runc.options]
Root = "/data/runc"
"""


def text(version: int, folder: Path, template: str = USERS, **words: str) -> str:
    """A file of this version; `type` and `default` are lines of it."""
    cri = NAMES.get(version, NAMES[3])
    image = 'sandbox_image = "registry.local/pause:3.9"' if version == 2 else ""
    images = cri if version == 2 else "io.containerd.cri.v1.images"
    lines = {"type": RUNC, "default": ""} | words
    return template.format(
        version=version, folder=folder, cri=cri, image=image, images=images, **lines
    )


class Containerd:
    """A containerd's program, and the newest version of the format that it reads."""

    def __init__(self, path: str) -> None:
        self.path = path
        default = subprocess.run([path, "config", "default"], capture_output=True, check=True)
        self.newest = tomllib.loads(default.stdout.decode())["version"]

    def dump(self, main: Path) -> dict[str, Any]:
        """What this containerd makes of a file and its drop-ins, flat: path of keys → value."""
        if tomllib.loads(main.read_text())["version"] > self.newest:
            pytest.skip(f"{self.path} reads files up to version {self.newest}")
        argv = [self.path, "--config", str(main), "config", "dump"]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        return flat(tomllib.loads(done.stdout))


def flat(table: dict[str, Any], above: tuple[str, ...] = ()) -> dict[str, Any]:
    """Each value that is no table by its keys, less what `configure` is to change: imports."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        path = (*above, key)
        if isinstance(value, dict):
            found |= flat(value, path)
        elif path != ("imports",):
            found[" ".join(path)] = value
    return found


@pytest.fixture(scope="module", params=("installed", "trixie", "sid"))
def containerd(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Containerd]:
    """This machine's containerd, and those of other releases, unpacked."""
    if request.param == "installed":
        yield Containerd(installed("containerd"))
        return
    folder = tmp_path_factory.mktemp("containerd")
    unpack(Archive(folder, release=request.param).fetch("containerd"), folder)
    yield Containerd(str(folder / "usr/bin/containerd"))
    shutil.rmtree(folder)


@pytest.fixture
def configure(minirun: Program, tmp_path: Path) -> Any:
    """A function that runs the command on tmp_path's files, and returns what it logged."""

    def run(*flags: str) -> str:
        files = (f"--config={tmp_path}/main.toml", f"--drop-in-config={tmp_path}/conf.d/99.toml")
        words = ("nvidia-ctk", "runtime", "configure", "--runtime=containerd", *files, *flags)
        done = minirun(*words)
        assert done.returncode == 0, done.stderr
        return done.stderr

    return run


def split(
    before: dict[str, Any], after: dict[str, Any], name: str = "nvidia"
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What is gone, what is new (less the runtime's entry), and that entry."""
    gone = {key: value for key, value in before.items() if after.get(key) != value}
    entry = {
        key.partition(f" runtimes {name} ")[2]: value
        for key, value in after.items()
        if f" runtimes {name} " in key
    }
    new = {
        key: value
        for key, value in after.items()
        if key not in before and f" runtimes {name} " not in key
    }
    return gone, new, entry


@pytest.mark.parametrize("neighbour", ("", "50.toml", "deeper"))
@pytest.mark.parametrize("version", (2, 3, 4))
def test_nothing_of_the_users_is_gone(
    containerd: Containerd, configure: Any, tmp_path: Path, version: int, neighbour: str
) -> None:
    """With another drop-in, too: containerd before 2.0 takes the whole section from the last."""
    main, folder = tmp_path / "main.toml", tmp_path / "conf.d"
    folder.mkdir()
    main.write_text(text(version, tmp_path))
    if neighbour:
        make_neighbour(version, tmp_path, neighbour)
    before = containerd.dump(main)
    said = configure()
    gone, new, entry = split(before, again := containerd.dump(main))
    assert (gone, new) == ({}, {})
    if neighbour == "deeper" and containerd.newest == 2:
        assert (entry, said.count("level=warning")) == ({}, 1)
        return
    assert entry["options BinaryName"] == "/usr/bin/nvidia-container-runtime"
    assert entry["runtime_type"] == "io.containerd.runc.v2"
    assert (entry["options SystemdCgroup"], entry["pod_annotations"]) == (True, ["a", "b"])
    texts = [path.read_text() for path in (main, folder / "99.toml")]
    configure()
    assert [path.read_text() for path in (main, folder / "99.toml")] == texts
    assert containerd.dump(main) == again
    assert "# the user's own" in texts[0]


def make_neighbour(version: int, folder: Path, name: str) -> None:
    """Another drop-in; "deeper" is one that imports a file, which is then read after all others."""
    neighbour = text(version, folder, NEIGHBOUR)
    if name == "deeper":
        own = f'version = {version}\nimports = ["{folder}/deeper.toml"]\n'
        (folder / "deeper.toml").write_text(neighbour)
        neighbour, name = own, "50.toml"
    (folder / "conf.d" / name).write_text(neighbour)


@pytest.mark.parametrize("version", (2, 3, 4))
def test_in_the_main_file_alone(
    containerd: Containerd, configure: Any, tmp_path: Path, version: int
) -> None:
    main = tmp_path / "main.toml"
    main.write_text(text(version, tmp_path))
    before = containerd.dump(main)
    configure("--drop-in-config=", "--nvidia-runtime-name=minirun")
    gone, new, entry = split(before, containerd.dump(main), "minirun")
    assert (gone, new) == ({}, {}) and entry["options SystemdCgroup"] is True


@pytest.mark.parametrize("version", (2, 3, 4))
def test_a_new_file_leaves_runc_the_default(
    containerd: Containerd, configure: Any, tmp_path: Path, version: int
) -> None:
    """containerd 1.7 has a runc of its own, until a file has a table of runtimes without one."""
    main = tmp_path / "main.toml"
    main.write_text(f"version = {version}\n")
    for flags in ((), ("--drop-in-config=",)):
        configure(*flags)
        after = containerd.dump(main)
        default = {value for key, value in after.items() if "default_runtime_name" in key}
        types = {
            key.split(" runtimes ")[1]: value
            for key, value in after.items()
            if re.search(" runtimes [a-z]+ runtime_type$", key)
        }
        assert default == {"runc"}
        kind = "io.containerd.runc.v2"
        assert types == {"runc runtime_type": kind, "nvidia runtime_type": kind}


@pytest.mark.parametrize("version", (2, 3, 4))
def test_an_entry_of_an_older_toolkit(
    containerd: Containerd, configure: Any, tmp_path: Path, version: int
) -> None:
    """Toolkits before 1.18 wrote into the main file: nvidia is the default only if it is asked."""
    main = tmp_path / "main.toml"
    cri = NAMES.get(version, NAMES[3])
    old = (
        f'[plugins."{cri}".containerd.runtimes.nvidia]\n'
        'runtime_type = "old"\n'
        f'[plugins."{cri}".containerd.runtimes.nvidia.options]\n'
        "SystemdCgroup = false\n"
    )
    main.write_text(text(version, tmp_path, default='default_runtime_name = "nvidia"') + old)
    before = containerd.dump(main)
    configure()
    gone, new, entry = split(before, after := containerd.dump(main))
    assert new == {}
    changed = {key.rpartition(" ")[2]: after[key] for key in gone if " nvidia " not in key}
    assert changed == {"default_runtime_name": "runc"}
    assert entry["runtime_type"] == "io.containerd.runc.v2"
    assert entry["options SystemdCgroup"] is True
    configure("--set-as-default")
    gone, _, _ = split(before, containerd.dump(main))
    assert {key for key in gone if " nvidia " not in key} == set()
    configure()
    assert containerd.dump(main) == after


@pytest.mark.parametrize("version", (2, 3, 4))
def test_asked_by_the_command(
    containerd: Containerd, configure: Any, tmp_path: Path, version: int
) -> None:
    """Its dump is in the newest version of the format; a drop-in's may not be above the file's."""
    main = tmp_path / "main.toml"
    main.write_text(text(version, tmp_path))
    program = tmp_path / "containerd"
    program.write_text(f'#!/bin/sh\nexec {containerd.path} --config {main} "$@"\n')
    program.chmod(0o755)
    before = containerd.dump(main)
    for _ in range(2):
        said = configure("--config-source=command", f"--executable-path={program}")
        assert f"Using config version {version}" in said
        gone, new, entry = split(before, containerd.dump(main))
        assert (gone, new) == ({}, {}) and entry["options SystemdCgroup"] is True
    assert tomllib.loads((tmp_path / "conf.d/99.toml").read_text())["version"] == version


def merge(version: int, below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """containerd's mergeConfig for plugins: whole sections before 2.0, level by level from then.

    Sources: containerd v1.7.24, services/server/config/config.go; v2.0.0 and v2.3.4,
    cmd/containerd/server/config/config.go (mergo.WithOverride: an empty value overrides nothing).
    """
    result = dict(below)
    for key, value in above.items():
        lower = result.get(key)
        if version > 2 and isinstance(value, dict) and isinstance(lower, dict):
            result[key] = merge(version, lower, value)
        elif version == 2 or value or key not in result:
            result[key] = value
    return result


@pytest.mark.parametrize("default", ("", "kata", "nvidia"))
@pytest.mark.parametrize("neighbour", (False, True))
@pytest.mark.parametrize(("version", "reader"), ((2, 2), (2, 3), (3, 3), (4, 4), (5, 5)))
def test_by_the_rule(
    configure: Any, tmp_path: Path, version: int, reader: int, neighbour: bool, default: str
) -> None:
    """A file of `version`, read by a containerd whose newest version is `reader`."""
    files = [tmp_path / "main.toml", tmp_path / "conf.d/50.toml", tmp_path / "conf.d/99.toml"]
    line = f'default_runtime_name = "{default}"' if default else ""
    files[0].write_text(text(version, tmp_path, default=line))
    files[1].parent.mkdir()
    if neighbour:
        make_neighbour(version, tmp_path, files[1].name)

    def merged() -> dict[str, Any]:
        plugins: dict[str, Any] = {}
        for path in filter(Path.exists, files):
            plugins = merge(reader, plugins, tomllib.loads(path.read_text())["plugins"])
        return flat(plugins)

    before = merged()
    configure()
    gone, new, entry = split(before, after := merged())
    key = f"{NAMES.get(version, NAMES[3])} containerd default_runtime_name"
    assert gone == ({key: "nvidia"} if before.get(key) == "nvidia" else {})
    assert after.get(key) in (
        (before.get(key), "runc") if default == "nvidia" else (before.get(key),)
    )
    assert not {name for name in new if name != key}
    assert entry["options BinaryName"] == "/usr/bin/nvidia-container-runtime"
    assert neighbour or default == "kata" or entry["options SystemdCgroup"] is True


@pytest.mark.parametrize(
    ("name", "path"), (("zz.toml", "conf.d/zz.toml"), ("deeper", "deeper.toml"))
)
def test_a_later_neighbour_is_named(configure: Any, tmp_path: Path, name: str, path: str) -> None:
    """containerd before 2.0 would take the section from it, and the new entry from nowhere."""
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "main.toml").write_text(text(2, tmp_path))
    make_neighbour(2, tmp_path, name)
    said = configure()
    assert said.count("level=warning") == 1 and f"{tmp_path}/{path} is read after" in said


def test_a_version_that_is_none(minirun: Program, tmp_path: Path) -> None:
    main = tmp_path / "main.toml"
    for value in ("-1", '"2"', "true", "2.0"):
        main.write_text(f"version = {value}\n")
        words = ("--runtime=containerd", f"--config={main}", "--dry-run")
        done = minirun("nvidia-ctk", "runtime", "configure", *words)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{main}: version" in done.stderr.splitlines()[-1]
