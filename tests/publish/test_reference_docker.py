"""The page about docker: whole, by docker's own completion and help, and true of the parser."""

import re
import subprocess
from pathlib import Path

import pytest

from required import installed
from tutorials.publish.reference import docker

COMPLETION = Path("/usr/share/bash-completion/completions/docker")
ASK = r"""
_get_comp_words_by_ref() {
    cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}
    words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD
}
_filedir() { :; }
docker() { :; }
source "$1"
__docker_server_is_experimental() { return 0; }
__docker_server_os_is() { return 0; }
while IFS= read -r line; do
    COMP_WORDS=(docker ${line% *} "${line##* }")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
    [ "${line##* }" != . ] || COMP_WORDS[COMP_CWORD]=
    _docker 2>/dev/null
    echo "${COMPREPLY[*]}"
done
"""
"""Answers each line, docker's words and then - or . (nothing typed yet), by what bash offers."""
GROUPS = ("container", "image", "network", "system", "volume")
ROW = re.compile(r"^ {2,6}(-[^ ,]+(?:, -[^ ]+)*)( \S+)?(?:  |$)")


def offered(*lines: str) -> list[list[str]]:
    """Return what docker's completion offers for each line."""
    if not COMPLETION.exists():
        pytest.skip(f"no {COMPLETION}: it is in Debian's package docker.io or docker-cli")
    argv = ["bash", "-c", ASK, "bash", str(COMPLETION)]
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=True)
    return [[word.partition("=")[0] for word in row.split()] for row in done.stdout.splitlines()]


def test_the_page_is_what_data_and_parser_say() -> None:
    assert docker.PAGE.read_text() == docker.text(), "make reference writes it anew"


def test_every_command_of_dockers_is_there() -> None:
    top, *groups = offered(" .", *(f"{name} ." for name in GROUPS))
    assert {"run", "swarm", "volume"} <= {*top}
    names = [*top, *(f"{a} {b}" for a, row in zip(GROUPS, groups, strict=True) for b in row)]
    assert len(names) > 100
    assert {*names} - {*docker.commands()} == set()
    page = docker.PAGE.read_text()
    assert [name for name in names if f"\n| `{name}` | **" not in page] == []


def test_every_flag_of_its_completion_is_there() -> None:
    names = list(docker.DATA["flags"])
    found = dict(zip(names, offered(*(f"{name} -" for name in names)), strict=True))
    assert "--gpus" in found["run"]
    missing = {
        name: more
        for name, row in found.items()
        if (more := {*row} - {"--help", *docker.DATA["flags"][name].split()})
    }
    assert missing == {}


def test_every_flag_has_its_place_on_the_page() -> None:
    blocks = dict(
        re.findall(r"^### (.*)\n((?:(?!###).*\n)*)", docker.PAGE.read_text(), re.MULTILINE)
    )
    for name, flags in docker.DATA["flags"].items():
        assert all(f"`{flag}`" in blocks[name] for flag in flags.split())


@pytest.mark.parametrize("name", docker.DATA["flags"])
def test_what_is_the_same_the_parser_knows_and_docker_writes_it_so(name: str) -> None:
    """With a value or without one, as docker's own help says."""
    client = installed("docker")
    argv = [client, *name.split(), "--help"]
    env = {"DOCKER_BUILDKIT": "0", "PATH": "/usr/bin:/bin"}
    shown = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
    theirs = {}
    for row in filter(None, map(ROW.match, shown.splitlines())):
        theirs |= {flag.partition("[")[0]: bool(row[2]) for flag in row[1].split(", ")}
    assert {*theirs} - {"--help", "-h", *docker.DATA["flags"][name].split()} == set()
    ours = docker.known(name)
    for flag in docker.DATA["flags"][name].split():
        if docker.fate(name, flag)[0] == "same":
            assert flag in ours
            assert ours[flag] == theirs.get(flag, ours[flag]), flag


def test_remarks_are_about_flags_that_docker_has() -> None:
    for table in ("different", "flags_not_here"):
        for name, rows in docker.DATA[table].items():
            flags = {flag for names in rows for flag in names.split()}
            assert flags <= {*docker.DATA["flags"][name].split()}, name
            if table == "flags_not_here":
                assert not flags & {*docker.known(name)}, f"{name}: the parser has it"
