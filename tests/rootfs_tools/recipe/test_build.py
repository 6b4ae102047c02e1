"""From recipes to images: what they hold, that they are reproducible, and how they fail."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from minirun.core.errors import ImageError
from rootfs_tools import catalogue, recipe
from rootfs_tools.blobs import Blobs
from rootfs_tools.history import steps
from rootfs_tools.recipe import build, text
from tests.rootfs_tools.making import make, unreachable

SOURCE = str(Path(catalogue.__file__).parents[2])
OCI = "org.opencontainers.image."


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with busybox, built here."""
    path = str(tmp_path_factory.mktemp("store"))
    build.build(path, "busybox", lambda line: None)
    return path


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of minirun's own recipes."""
    folder = tmp_path / "recipes"
    monkeypatch.setattr(recipe, "FOLDER", str(folder))
    return folder


def manifest(store: str, name: str) -> dict[str, Any]:
    digest = catalogue.details(store, name)["manifest"]
    found: dict[str, Any] = json.loads(Blobs(store).document(digest))
    return found


def test_busybox_runs_in_its_own_root(filled: str) -> None:
    root = catalogue.resolve(filled, "busybox").layers[0]
    command = ["chroot", root, "/bin/sh", "-c", "id -un; ls -ld /tmp; awk 'BEGIN{print 6*7}'"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    user, directory, answer = output.splitlines()
    assert (user, answer) == ("root", "42")
    assert directory.startswith("drwxrwxrwt")
    links = [p for d, _, n in os.walk(root) for f in n if os.path.islink(p := os.path.join(d, f))]
    assert len(links) > 200
    broken = [p for p in links if os.path.relpath(os.path.realpath(p), root) != "bin/busybox"]
    assert broken == []


def test_two_builds_have_one_digest(filled: str, tmp_path: Path) -> None:
    """At another time, in another place, under another umask and in another language."""
    code = (
        "import os, sys; os.umask(0o077); from rootfs_tools.recipe import build;"
        "print(build.build(sys.argv[1], 'busybox', lambda line: None).digest)"
    )
    environment = os.environ | {"PYTHONPATH": SOURCE, "TZ": "Asia/Seoul", "LC_ALL": "ko_KR.UTF-8"}
    command = [sys.executable, "-c", code, str(tmp_path)]
    again = subprocess.run(command, env=environment, capture_output=True, text=True, cwd="/tmp")
    assert again.stdout.strip() == catalogue.resolve(filled, "busybox").digest, again.stderr


def test_the_date_of_the_input_or_source_date_epoch(
    filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    date = int(os.stat("/bin/busybox").st_mtime)
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(date))
    assert catalogue.details(filled, "busybox")["created"] == created
    root = catalogue.resolve(filled, "busybox").layers[0]
    times = {os.lstat(os.path.join(d, n)).st_mtime for d, _, f in os.walk(root) for n in f}
    assert times == {date}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    build.build(str(tmp_path), "busybox", lambda line: None)
    assert catalogue.details(str(tmp_path), "busybox")["created"] == "2001-09-09T01:46:40Z"


def test_the_manifest_says_what_it_is_made_of(filled: str) -> None:
    command = ["dpkg-query", "--show", "--showformat", "${Version}", "busybox-static"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = manifest(filled, "busybox")["annotations"]
    digest = hashlib.sha256(Path("/bin/busybox").read_bytes()).hexdigest()
    assert found["minirun.made-of"] == f"busybox-static {version} sha256:{digest}"
    assert (found[f"{OCI}title"], found[f"{OCI}version"]) == ("busybox", version)
    assert found[f"{OCI}created"] == catalogue.details(filled, "busybox")["created"]
    digest = hashlib.sha256(Path(recipe.FOLDER, "busybox.toml").read_bytes()).hexdigest()
    assert found["minirun.recipe"] == f"busybox sha256:{digest}"
    assert version in catalogue.resolve(filled, "busybox").origin
    assert [step.created_by[:15] for step in steps(filled, "busybox")] == ["recipe busybox:"]


def test_an_intact_image_is_kept_and_a_damaged_one_built_again(tmp_path: Path) -> None:
    store = str(tmp_path)
    first = build.build(store, "busybox", lambda line: None)
    inode = os.stat(first.layers[0]).st_ino
    assert build.build(store, "busybox", pytest.fail) == first
    assert os.stat(first.layers[0]).st_ino == inode
    Path(first.layers[0], "etc/passwd").write_text("root::0:0::/:/bin/sh\n")
    blob = Path(Blobs(store).path(manifest(store, "busybox")["layers"][0]["digest"]))
    blob.write_bytes(b"damaged too")
    told: list[str] = []
    assert build.build(store, "busybox", told.append) == first
    assert "damaged" in told[0]
    assert catalogue.verify(store, "busybox") == ""
    assert blob.stat().st_size > 1_000_000
    (tmp_path / "images/busybox/image.json").write_text("{")
    assert build.find_or_build(store, "busybox", told.append) == first
    shutil.rmtree(os.path.dirname(first.layers[0]))
    assert build.find_or_build(store, "busybox", told.append) == first


LOOKING = """
import sys
from minirun.image import store
from rootfs_tools.grammar import parse
print(flush=True)
while True:
    assert store.find(sys.argv[1], parse("busybox")), "there is no image"
"""


@pytest.mark.parametrize("damage", ["etc/passwd", "../layer.json"])
def test_who_starts_a_container_meanwhile_finds_the_image(filled: str, damage: str) -> None:
    """A damaged one too: it keeps its place until the new one takes it."""
    layer = catalogue.resolve(filled, "busybox").layers[0]
    with subprocess.Popen(
        [sys.executable, "-c", LOOKING, filled], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as looking:
        assert looking.stdout
        assert looking.stderr
        looking.stdout.readline()
        try:
            for _ in range(3):
                Path(layer, damage).write_text("damaged")
                build.build(filled, "busybox", lambda line: None)
                assert catalogue.verify(filled, "busybox") == ""
        finally:
            looking.terminate()
        assert looking.stderr.read() == b""


SHORT = """
import os, resource, sys
from minirun.core.errors import MinirunError
from rootfs_tools.recipe import build
build.build(sys.argv[1], "busybox", print)  # now all is imported
for number in range(3, 30):
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, 64))
    try:
        build.build(sys.argv[1], "busybox", print)
    except (MinirunError, OSError) as error:
        assert "Too many open files" in str(error), error
"""


def test_an_image_that_cannot_be_read_just_now_is_not_damaged(filled: str) -> None:
    before = os.stat(f"{filled}/images/busybox/image.json").st_ino
    command = [sys.executable, "-c", SHORT, filled]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert os.stat(f"{filled}/images/busybox/image.json").st_ino == before


def test_a_name_without_a_recipe(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="no recipe for alpine"):
        build.build(str(tmp_path), "alpine", pytest.fail)
    assert os.listdir(tmp_path) == []


def test_what_is_missing_is_built_and_one_line_says_so(tmp_path: Path) -> None:
    told: list[str] = []
    image = build.find_or_build(str(tmp_path), "docker.io/library/busybox", told.append)
    assert image.name == "busybox:latest"
    assert build.find_or_build(str(tmp_path), "busybox", told.append) == image
    assert told == ["building busybox"]
    assert os.listdir(tmp_path / "images") == [".lock-busybox", "busybox"] or set(
        os.listdir(tmp_path / "images")
    ) == {".lock-busybox", "busybox"}


def test_static_is_laid_out_as_alpine_and_runs(tmp_path: Path) -> None:
    image = build.build(str(tmp_path), "static", lambda line: None)
    root = image.layers[0]
    assert os.readlink(f"{root}/bin/ls") == "/bin/busybox"
    script = ". /etc/profile; cat /etc/mtab >/dev/null; echo $PATH; umask; id -un"
    command = ["chroot", root, "/bin/sh", "-c", f"mount -t proc proc /proc; {script}"]
    done = subprocess.run(["unshare", "-m", *command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [image.env[0].removeprefix("PATH="), "0022", "root"]
    dynamic = [name for _, _, names in os.walk(root) for name in names if ".so" in name]
    assert dynamic == []


def test_the_substitute_never_passes_for_ubuntu(tmp_path: Path, own: Path) -> None:
    """With a stand-in for the image debian: what is tested is the name it is given."""
    store = str(tmp_path / "store")

    def fill(tree: Path) -> None:
        (tree / "etc").mkdir()
        (tree / "etc/os-release").write_text("ID=debian\n")

    unreachable(own)
    debian = make(Path(store), "debian", fill, Cmd=["bash"], Env=["A=1"])
    told: list[str] = []
    image = build.find_or_build(store, "ubuntu", told.append)
    (line,) = told
    assert line.startswith("ubuntu is made of Debian's packages, a substitute and not Ubuntu: ")
    assert "http://127.0.0.1:1/ubuntu" in line
    assert image.origin == "not Ubuntu: made by a test, under the name ubuntu"
    assert (image.cmd, image.env, image.layers) == (("bash",), ("A=1",), debian.layers)
    found = manifest(store, "ubuntu")["annotations"]
    assert found[f"{OCI}description"] == "not Ubuntu: made by a test"
    assert found[f"{OCI}base.digest"] == debian.digest
    assert [step.changes is None for step in steps(store, "ubuntu")] == [False, True]
    catalogue.remove_image(store, "debian")
    assert catalogue.verify(store, "ubuntu") == ""


def test_an_archive_that_is_silent_is_given_up_in_seconds(
    tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = tmp_path / "helper"
    helper.write_text("#!/bin/sh\nexec sleep 60\n")
    helper.chmod(0o755)
    monkeypatch.setattr("rootfs_tools.recipe.bootstrap._HELPER", (str(helper),))
    monkeypatch.setattr("rootfs_tools.recipe.bootstrap._HASTY", 0.2)
    unreachable(own)
    make(tmp_path / "store", "debian", lambda tree: None)
    told: list[str] = []
    build.build(str(tmp_path / "store"), "ubuntu", told.append)
    assert told[0].endswith(": no answer")


def test_a_base_keeps_its_configuration_and_gets_more(tmp_path: Path, own: Path) -> None:
    own.mkdir()
    (own / "low.toml").write_text(
        '[image]\nenv = ["A=1", "B=2"]\ncmd = ["sh"]\n[image.labels]\nx = "1"\n'
        '[[directories]]\npaths = ["etc"]\nmode = 0o711\n[[files]]\npath = "etc/low"\n'
    )
    (own / "high.toml").write_text(
        'base = "low"\n[image]\nenv = ["B=3"]\nworkdir = "/w"\n[image.labels]\ny = "2"\n'
        '[[files]]\npath = "etc/high"\ntext = "high"\nmode = 0o600\n'
        '[[links]]\npath = "etc/link"\ntarget = "high"\n'
    )
    store = str(tmp_path / "store")
    image = build.build(store, "high", lambda line: None)
    low = catalogue.resolve(store, "low")
    assert image.layers[0] == low.layers[0]
    assert (image.env, image.cmd, image.workdir) == (("A=1", "B=3"), ("sh",), "/w")
    assert catalogue.details(store, "high")["labels"] == {"x": "1", "y": "2"}
    top = Path(image.layers[1])
    assert (top / "etc/link").read_text() == "high"
    assert [oct(path.stat().st_mode) for path in (top / "etc", top / "etc/high")] == [
        "0o40711", "0o100600"
    ]  # fmt: skip
    found = manifest(store, "high")["annotations"]
    base = (found[f"{OCI}base.name"], found[f"{OCI}base.digest"])
    assert base == ("docker.io/library/low:latest", low.digest)


def test_a_recipe_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "hello.c").write_text('#include <stdio.h>\nint main(void) { puts("hello"); }\n')
    path = tmp_path / "hello.toml"
    path.write_text(
        '[[programs]]\npath = "hello"\ncompile = "hello.c"\noptions = ["-static", "-s"]\n'
    )
    image = build.build(str(tmp_path / "store"), str(path), lambda line: None)
    assert image.name == "hello:latest"
    done = subprocess.run(["chroot", image.layers[0], "/hello"], capture_output=True, text=True)
    assert done.stdout == "hello\n"


def test_a_recipe_that_was_changed_is_carried_out_again(tmp_path: Path) -> None:
    store, path = str(tmp_path / "store"), tmp_path / "hello.toml"
    source = tmp_path / "hello.c"
    source.write_text("int main(void) { return 3; }\n")
    path.write_text('[[programs]]\npath = "hello"\ncompile = "hello.c"\noptions = ["-static"]\n')
    first = build.build(store, str(path), lambda line: None)
    assert build.build(store, str(path), pytest.fail) == first
    source.write_text("int main(void) { return 4; }\n")
    second = build.build(store, str(path), lambda line: None)
    assert subprocess.run(["chroot", second.layers[0], "/hello"], check=False).returncode == 4
    source.unlink()
    with pytest.raises(ImageError, match=r"hello\.c: no such file"):
        build.build(store, str(path), pytest.fail)


def test_an_image_from_elsewhere_is_no_recipes(tmp_path: Path) -> None:
    """A pulled busybox stays what it is."""
    pulled = make(tmp_path, "busybox", lambda tree: None)
    assert build.build(str(tmp_path), "busybox", pytest.fail) == pulled


def test_what_cannot_be_compiled_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.c").write_text("int main(void) { return nothing; }\n")
    (tmp_path / "app.toml").write_text('[[programs]]\npath = "app"\ncompile = "app.c"\n')
    store = tmp_path / "store"
    with pytest.raises(ImageError, match=r"cc failed: app\.c:1:25: error: .nothing. undeclared"):
        build.build(str(store), str(tmp_path / "app.toml"), lambda line: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageError, match=r"no C compiler is here to compile app\.c") as caught:
        build.build(str(store), str(tmp_path / "app.toml"), lambda line: None)
    assert caught.value.hint == "apt-get install gcc libc6-dev"
    assert os.listdir(store / "images") == [".lock-app"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nonsense", "Expected '=' after a key"), ('abuot = ""', "'abuot' is unknown"),
        ("about = 1", "about: 1 is no text"), ("files = 1", "files: not a list"),
        ("files = [1]", "files: not a table"), ("image = []", "image: not a table"),
        ('[image]\nenv = "A=1"', "image: env: not a list"),
        ("[image]\nenv = [1]", "image: env: 1 is no text"),
        ('[[files]]\nmode = "0644"', "files: mode: '0644' is not of the type int"),
        ('name = "x"', "'name' is unknown"), ('about = "\\u0000"', "is no text"),
        ('[image.labels]\na = 1', "image: labels: 1 is no text"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_recipe_is_named(tmp_path: Path, words: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(words)
    with pytest.raises(ImageError) as caught:
        text.load(str(path))
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"recipe {path}: ")
    assert "\n" not in caught.value.line()


def test_a_file_of_a_recipe_stays_in_the_image(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('[[files]]\npath = "../../escape"\n')
    with pytest.raises(ImageError, match=r"\.\./\.\./escape"):
        build.build(str(tmp_path / "store"), str(path), lambda line: None)
    assert not (tmp_path / "store/escape").exists()
    assert os.listdir(tmp_path / "store/images") == [".lock-bad"]


def test_every_recipe_can_be_read() -> None:
    for name in recipe.names():
        found = text.load(name)
        assert found.about, name
        assert found.base in ("", *recipe.names())


def test_the_program_in_rootfs_tools(tmp_path: Path) -> None:
    program = os.path.join(SOURCE, "rootfs-tools/build")
    command = [program, "busybox", "--store", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert (result.returncode, result.stderr) == (0, "building busybox\n")
    assert result.stdout.startswith("busybox:latest  sha256:")
    assert json.loads((tmp_path / "images/busybox/image.json").read_text())["name"] == "busybox"
    bad = subprocess.run([program, "alpine"], capture_output=True, text=True)
    assert bad.returncode == 1
    assert bad.stderr.startswith("rootfs-tools/build: no recipe for alpine (there are busybox, ")
