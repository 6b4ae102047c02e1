"""What `make demo` and `make test` would do to a machine's packages: nothing but add.

A machine is dpkg's status file, which dpkg-query and apt's --simulate take in place of this
machine's (DPKG_ADMINDIR, Dir::State::status), and a folder of packages that apt reads as a source.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from required import PACKAGE_OF

TOP = Path(__file__).parents[2]
SCRIPT = str(TOP / ".ci" / "packages")


def package(name: str, version: str = "1", **fields: str) -> dict[str, str]:
    """The fields of a package: deb-control(5)."""
    rest = {name.replace("_", "-"): value for name, value in fields.items()}
    rest = {"Maintainer": "x", "Description": "x", **rest}
    return {"Package": name, "Version": version, "Architecture": "amd64", **rest}


def _stanzas(packages: list[dict[str, str]]) -> str:
    return "\n".join("".join(f"{k}: {v}\n" for k, v in row.items()) for row in packages)


DOCKER_CE = (
    package("docker-ce", Depends="docker-ce-cli, containerd.io", Conflicts="docker.io"),
    package("docker-ce-cli", Conflicts="docker.io"),
    package("containerd.io", Conflicts="containerd, runc", Provides="containerd, runc"),
)
"""Docker's own packages, as docker.com has them."""


class Machine:
    """A machine with some packages, where apt knows of others; each is a dict of its fields."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.source = place / "source"
        for folder in ("source", "lists/partial", "cache/archives/partial", "etc"):
            (place / folder).mkdir(parents=True)
        (place / "apt.conf").write_text(f"""
            Dir::State::status "{place}/status";
            Dir::State::lists "{place}/lists";
            Dir::Cache "{place}/cache";
            Dir::Etc::SourceList "{place}/etc/sources.list";
            Dir::Etc::SourceParts "-";
            APT::Architecture "amd64";
            APT::Sandbox::User "root";
        """)
        (place / "etc" / "sources.list").write_text(f"deb [trusted=yes] file:{self.source} ./\n")
        self.env = {"APT_CONFIG": f"{place}/apt.conf", "DPKG_ADMINDIR": str(place)}
        self.has()

    def has(self, *packages: dict[str, str]) -> None:
        """Install these, and nothing else."""
        rows = [{**package, "Status": "install ok installed"} for package in packages]
        (self.place / "status").write_text(_stanzas(rows))

    def knows(self, *packages: dict[str, str]) -> None:
        """Offer these to apt."""
        rows = [{**p, "Filename": f"./{p['Package']}.deb", "Size": "1000"} for p in packages]
        (self.source / "Packages").write_text(_stanzas(rows))
        subprocess.run(["apt-get", "update", "-qq"], env=os.environ | self.env, check=True)

    def chooses(self, *words: str) -> subprocess.CompletedProcess[str]:
        """What the script would install: one package a line."""
        return _choose(self.env, *words)


def _choose(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    argv = [SCRIPT, "--simulate", *words]
    return subprocess.run(argv, env=os.environ | env, capture_output=True, text=True, check=False)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def makefile(name: str) -> list[str]:
    """The words of a variable of the Makefile."""
    text = (TOP / "Makefile").read_text().replace("\\\n", " ")
    found = re.search(rf"^{name} := (.*)$", text, re.MULTILINE)
    assert found, name
    return found[1].split()


def test_what_tests_need_is_what_make_test_installs() -> None:
    known = {*makefile("NEEDED"), *makefile("USEFUL"), *makefile("TESTED")}
    assert set(PACKAGE_OF.values()) <= known


def test_what_is_there_is_not_asked_for(machine: Machine) -> None:
    machine.has(package("a"), package("b"))
    done = machine.chooses("a", "--optional", "b")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("known", "chosen"), [(("a", "b"), ["a"]), (("b",), ["b"]), (("c", "b"), ["b"])]
)
def test_the_first_alternative_that_apt_knows(
    machine: Machine, known: tuple[str, ...], chosen: list[str]
) -> None:
    machine.knows(*map(package, known))
    done = machine.chooses("--optional", "a|b", "b" if "a" not in known else "a")
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, chosen, "")


def test_an_alternative_that_is_there_is_not_asked_for(machine: Machine) -> None:
    machine.has(package("b"))
    machine.knows(package("b"))
    assert machine.chooses("a|b").stdout == ""


def test_a_machine_with_docker_ce_keeps_it(machine: Machine) -> None:
    docker_io = package("docker.io", Depends="containerd")
    machine.has(*DOCKER_CE)
    offered = [package(name) for name in ("containerd", "runc", "crun", "podman")]
    machine.knows(docker_io, *offered)
    done = machine.chooses("--optional", "docker.io", "containerd", "runc", "crun", "podman")
    assert (done.returncode, done.stdout.split()) == (0, ["crun", "podman"])
    said = {line.split()[1]: line for line in done.stderr.splitlines()}
    assert sorted(said) == ["containerd", "docker.io", "runc"]
    assert said["docker.io"].endswith("is left out: it would remove docker-ce docker-ce-cli")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_this_machine_with_docker_ce_keeps_it(tmp_path: Path) -> None:
    """This machine's packages and sources, but docker-ce in place of Debian's docker."""
    gone = {"docker.io", "docker-cli", "containerd", "runc"}
    rows = Path("/var/lib/dpkg/status").read_text().strip().split("\n\n")
    kept = [row for row in rows if not gone & {row.partition("\n")[0].removeprefix("Package: ")}]
    ours = _stanzas([{**row, "Status": "install ok installed"} for row in DOCKER_CE])
    (tmp_path / "status").write_text("\n\n".join([*kept, ours]))
    (tmp_path / "cache").mkdir()
    places = f'Dir::State::status "{tmp_path}/status"; Dir::Cache "{tmp_path}/cache";'
    (tmp_path / "apt.conf").write_text(places)
    env = {"APT_CONFIG": f"{tmp_path}/apt.conf", "DPKG_ADMINDIR": str(tmp_path)}
    words = ["--optional", *makefile("NEEDED"), *makefile("USEFUL"), *makefile("TESTED")]
    done = _choose(env, *words)
    assert re.search(r"docker.io is left out: (it would remove docker-ce|Error)", done.stderr)
    assert not gone & set(done.stdout.split())
    argv = ["apt-get", "--simulate", "--no-install-recommends", "install", *done.stdout.split()]
    plan = subprocess.run(argv, env=os.environ | env, capture_output=True, text=True, check=True)
    assert not re.search(r"^Remv|^Inst \S+ \[", plan.stdout, re.MULTILINE)


def test_nothing_is_upgraded(machine: Machine) -> None:
    machine.has(package("base", "1"))
    machine.knows(package("base", "2"), package("new", Depends="base (>= 2)"), package("other"))
    done = machine.chooses("--optional", "new", "other")
    assert done.stdout.split() == ["other"]
    assert done.stderr == "packages: new is left out: it would upgrade base\n"


@pytest.mark.parametrize(
    ("offered", "why"),
    [
        ({"Conflicts": "mine"}, "it would remove mine"),
        ({"Depends": "mine (>= 2)"}, "it would upgrade mine"),
        (None, "Unable to locate package wanted"),
    ],
)
def test_what_the_demo_needs_ends_it_in_one_line(
    machine: Machine, offered: dict[str, str] | None, why: str
) -> None:
    machine.has(package("mine"))
    rows = [] if offered is None else [package("wanted", **offered)]
    machine.knows(package("mine", "2"), *rows)
    done = machine.chooses("wanted", "--optional", "other")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"packages: wanted is needed and was not installed: {why}\n"


def test_of_two_that_exclude_each_other_the_needed_one_comes(machine: Machine) -> None:
    machine.knows(package("a", Conflicts="z"), package("z"))
    done = machine.chooses("z", "--optional", "a")
    assert done.stdout.split() == ["z"]
    assert done.stderr.startswith("packages: a is left out: ")
