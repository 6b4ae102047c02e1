"""`make release`: what it refuses, what it writes, what it builds, and that on a bare Debian.

The last takes minutes, and is made by `make night`. Alone: MINIRUN_FUZZ=1, and this file; with -s
it shows what each command prints.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from journeys.cells import DebianCell
from minirun.core.keeping import state
from night import CASES
from required import installed, skip

TOP = Path(__file__).parents[2]
RELEASE = ".ci/release"
VERSION = "99.0.0"
NEWS = """# Changelog

## [Unreleased]

- A line that is long enough, and then some, to stand on two lines of a file of Debian's, which
  end at column 80.
- Another.

## [0.2.0] - 2026-11-26

### A chapter

- Old.
"""
DEBIAN = """\
minirun (0.3.0) unstable; urgency=medium

  * A line that is long enough, and then some, to stand on two lines of a file
    of Debian's, which end at column 80.
  * Another.

 -- A <a@b>  Tue, 01 Dec 2026 00:00:00 +0000

minirun (0.2.0) unstable; urgency=medium

  [ A chapter ]
  * Old.

 -- A <a@b>  Thu, 26 Nov 2026 00:00:00 +0000
"""
DATE = datetime.date(2026, 12, 1)
BY = ("-c", "user.name=a", "-c", "user.email=a@b")


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "release_changelog", TOP / RELEASE / "changelog.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


changelog = _module()


def test_what_is_unreleased_becomes_the_version() -> None:
    text = changelog.released(NEWS, "0.3.0", DATE)
    assert text == NEWS.replace("\n\n- A line", "\n\n## [0.3.0] - 2026-12-01\n\n- A line")
    assert [each.version for each in changelog.sections(text)] == ["Unreleased", "0.3.0", "0.2.0"]
    assert changelog.debian(text, "minirun", "A <a@b>") == DEBIAN
    with pytest.raises(changelog.RefusedError, match="is empty"):
        changelog.released(text, "0.4.0", DATE)


@pytest.mark.parametrize("version", ["0.2.1", "0.10.0", "1.0.0"])
def test_a_newer_version_is_taken(version: str) -> None:
    assert f"[{version}]" in changelog.released(NEWS, version, DATE)


def test_the_changelog_of_the_tree_can_be_read() -> None:
    text = (TOP / "CHANGELOG.md").read_text()
    first, second, *_ = changelog.sections(text)
    assert first.version == "Unreleased" and changelog.numbers(second.version)
    argv = ["dpkg-parsechangelog", "--all", "-l-"]
    if shutil.which(argv[0]):
        written = changelog.debian(text, "minirun", "A <a@b>")
        done = subprocess.run(argv, input=written, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_version_stands_in_one_file() -> None:
    source = (TOP / changelog.PLACE).read_text()
    assert changelog.with_version(source, "0.3.0").count('\n__version__ = "0.3.0"\n') == 1
    assert "\nversion = " not in (TOP / "pyproject.toml").read_text().split("[tool.")[0]


def _commit(tree: Path) -> None:
    git = ["git", "-C", str(tree), *BY]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message=x"], check=True)


def _release(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(tree / RELEASE), *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with no more than a refusal reads."""
    tree = tmp_path_factory.mktemp("small")
    for name in (RELEASE, "minirun/fast", "minirun/__init__.py", "CHANGELOG.md"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (TOP / name).is_dir() else shutil.copy
        copy(TOP / name, tree / name)
    (tree / "CHANGELOG.md").write_text(NEWS)
    (tree / ".gitignore").write_text("__pycache__/\n")
    _commit(tree)
    return tree


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("", "no version is named (make release VERSION=X.Y.Z)"),
        ("1.0", "VERSION=1.0 is not of the form X.Y.Z, such as 0.3.0"),
        ("v1.0.0", "VERSION=v1.0.0 is not of the form X.Y.Z, such as 0.3.0"),
        ("1.0.01", "VERSION=1.0.01 is not of the form X.Y.Z, such as 0.3.0"),
        ("1.0.²", "VERSION=1.0.² is not of the form X.Y.Z, such as 0.3.0"),
        ("0.2.0", "VERSION=0.2.0 is not newer than 0.2.0 (CHANGELOG.md)"),
        ("0.1.9", "VERSION=0.1.9 is not newer than 0.2.0 (CHANGELOG.md)"),
    ],
)
def test_a_version_is_refused_in_one_line(small: Path, version: str, said: str) -> None:
    done = _release(small, version)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"make release: {said}\n")
    assert (small / "CHANGELOG.md").read_text() == NEWS


def test_uncommitted_changes_are_refused_in_one_line(small: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(small, tree)
    (tree / "new file").write_text("")
    done = _release(tree, "1.0.0")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == 'make release: uncommitted changes: "new file" (git status)\n'


def test_a_day_that_is_none_is_refused_in_one_line(small: Path) -> None:
    argv = [sys.executable, small / RELEASE, "1.0.0"]
    env = os.environ | {"SOURCE_DATE_EPOCH": "today"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    said = "make release: SOURCE_DATE_EPOCH=today is no number of seconds\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_an_empty_section_is_refused_in_one_line(small: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(small, tree)
    text = NEWS.split("- A line")[0] + "## [0.2.0]" + NEWS.split("## [0.2.0]")[1]
    (tree / "CHANGELOG.md").write_text(text)
    _commit(tree)
    done = _release(tree, "1.0.0")
    said = "[Unreleased] in CHANGELOG.md is empty: there is nothing to release"
    assert (done.returncode, done.stderr) == (1, f"make release: {said}\n")


def test_a_build_that_fails_leaves_the_files_as_they_were(small: Path) -> None:
    """There is no pyproject.toml."""
    before = (small / "minirun/__init__.py").read_text()
    done = _release(small, "1.0.0")
    assert done.returncode == 1 and "Traceback" not in done.stderr.splitlines()[-1]
    assert (small / "CHANGELOG.md").read_text() == NEWS
    assert (small / "minirun/__init__.py").read_text() == before


def _copied(tree: Path) -> None:
    """Copy the clone's files, as they are now, to a repository of its own."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=TOP, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if os.path.lexists(TOP / name):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TOP / name, tree / name, follow_symlinks=False)
    news = tree / "CHANGELOG.md"
    news.write_text(news.read_text().replace("[Unreleased]\n", "[Unreleased]\n\n- New.\n", 1))
    _commit(tree)


def _built(tree: Path) -> Path:
    """Make a release in a repository, and return where it is."""
    argv = ["make", "-C", str(tree), "-o", "setup", "-o", ".venv/.release", "release"]
    argv += [f"VERSION={VERSION}", f"PYTHON={sys.executable}"]
    env = os.environ | {"SOURCE_DATE_EPOCH": "1796083201"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if "No matching distribution found for" in done.stderr:
        skip(f"pip reaches no index of packages: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    assert f"git tag -a v{VERSION}" in done.stdout
    return tree / "build/release"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not CASES:
        pytest.skip("it takes minutes: make night")
    tree = tmp_path_factory.mktemp("release")
    _copied(tree)
    return _built(tree)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_builds_are_the_same(built: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "--quiet", built.parents[1], tmp_path / "again"], check=True)
    again = _built(tmp_path / "again")
    (one,), (two,) = built.glob("*.deb"), again.glob("*.deb")
    assert one.name == two.name
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (one, two)]
    assert sums[0] == sums[1]
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tmp_path / "again", capture_output=True, text=True
    )
    assert changed.stdout == " M CHANGELOG.md\n M minirun/__init__.py\n"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_sdist_has_what_the_tree_has(built: Path, tmp_path: Path) -> None:
    """A wheel of the tree has the same files as the one that was built out of the sdist."""
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path]
    subprocess.run([*argv, built.parents[1]], check=True)
    (ours,), (of_tree,) = built.glob("*.whl"), tmp_path.glob("*.whl")
    assert zipfile.ZipFile(ours).namelist() == zipfile.ZipFile(of_tree).namelist()
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert f"minirun-{VERSION}/tutorials/levels/09_runtime.py" in archive.getnames()


@pytest.fixture(scope="module")
def cell(built: Path) -> Iterator[DebianCell]:
    """A Debian of this machine's release with a network, and what was built in /root."""
    for program in ("slirp4netns", "mmdebstrap"):
        installed(program)
    release = dict(line.split("=", 1) for line in state.read_text("/etc/os-release").splitlines())
    cell = DebianCell(release["VERSION_CODENAME"])
    try:
        cell.connect()
        for path in built.iterdir():
            shutil.copy(path, cell.root / "root")
        yield cell
    finally:
        cell.close()


def typed(cell: DebianCell, command: str) -> str:
    """What a shell's commands print in it, on both streams; they have to succeed."""
    print(f"$ {command}")
    said = cell.run("bash", "-euc", f"exec 2>&1; {command}")
    print(said)
    return said


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_is_installed_by_pip(cell: DebianCell) -> None:
    typed(cell, "python3 -m venv ~/venv && ~/venv/bin/pip install --quiet ~/*.whl")
    assert f"minirun version {VERSION}\n" in typed(cell, "~/venv/bin/minirun --version")
    typed(cell, "~/venv/bin/minirun level start 0 ~/venv")
    typed(cell, "~/venv/bin/pip wheel --quiet --no-deps --wheel-dir ~/of-sdist ~/*.tar.gz")
    (ours,) = (cell.root / "root").glob("*.whl")
    (of_sdist,) = (cell.root / "root/of-sdist").glob("*.whl")
    assert zipfile.ZipFile(ours).namelist() == zipfile.ZipFile(of_sdist).namelist()


MADE_BARE = """
export DEBIAN_FRONTEND=noninteractive
apt-get purge --quiet=2 --yes --auto-remove make python3 python3-venv mmdebstrap python3-prctl \
    nftables python3-dnspython > /dev/null
rm -rf ~/venv ~/of-sdist /srv/minirun /var/lib/minirun
rm -f /etc/dpkg/dpkg.cfg.d/*
"""
"""No more than mmdebstrap's minbase; a container leaves out what is in /usr/share/man."""
FIND = "find / -xdev -name '*minirun*' -not -path '/root/*' -not -path '/var/cache/man/*' | sort"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_deb_on_a_bare_debian(cell: DebianCell) -> None:
    typed(cell, MADE_BARE)
    before = typed(cell, FIND)
    typed(cell, "apt-get install --yes ~/minirun_*.deb 2>&1 | grep -A 99 '^The following'")
    typed(cell, "apt-get install --yes --quiet=2 busybox-static man-db > /dev/null")
    scripts = typed(cell, "cd /var/lib/dpkg/info; ls minirun.*")
    assert scripts.split() == ["minirun.list", "minirun.md5sums"]
    assert typed(cell, "command -v minirun") == "/usr/bin/minirun\n"
    assert f"minirun version {VERSION}\n" in typed(cell, "minirun --version")
    assert "started by the launcher" in typed(cell, "minirun doctor || true")
    typed(cell, "minirun images build busybox")
    nodes = typed(cell, "minirun run --rm --gpus 0,1 busybox sh -c 'ls /dev/nvidia*'")
    assert {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"} <= {*nodes.split()}
    assert "pivot_root" in typed(cell, "minirun replay figure-1")
    typed(cell, "minirun level start 0 ~/level; minirun level solution 0 > ~/level/00_process.py")
    typed(cell, "minirun level check 0 ~/level/00_process.py")
    typed(cell, "minirun lab start lost-whiteout; minirun lab solution --apply lost-whiteout")
    typed(cell, "minirun lab check lost-whiteout; minirun lab reset lost-whiteout")
    typed(cell, "minirun explain pivot_root | head -n 5")
    assert "MINIRUN(1)" in typed(cell, "man minirun | head -n 12; man -w minirun-run")
    completion = "/usr/share/bash-completion/completions/minirun"
    assert "-F _minirun" in typed(cell, f". {completion}; complete -p minirun")
    typed(cell, "minirun run -d --name stays busybox sleep 600")
    typed(cell, "dpkg --verify minirun")
    typed(cell, "dpkg -L minirun > ~/list; apt-get purge --yes --quiet=2 minirun > /dev/null")
    assert typed(cell, "while read each; do [ -d $each -o ! -e $each ]; done < ~/list") == ""
    found = {*typed(cell, FIND).split()} - {*before.split()}
    assert {each for each in found if not each.startswith(("/var/lib/minirun", "/sys/"))} == set()
    assert typed(cell, "ls /var/lib/minirun/containers").split() == ["stays"]
