"""`explain` of sixty lines that stop people: how many are right, wrong, and unknown.

The lines, what they mean, and the words that an explanation of each cannot do without:
tests/data/met.toml, which was there before their patterns.
"""

import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from minirun.faces import knowledge
from minirun.faces.knowledge.texts import Topic

RIGHT, WRONG, UNKNOWN = "right", "wrong", "unknown"


class Met(NamedTuple):
    """A line, who prints it, what it means, and the words that say so."""

    line: str
    source: str
    means: str
    says: list[str]


DATA = Path(__file__).parents[2] / "data" / "met.toml"
MET = [Met(**row) for row in tomllib.loads(DATA.read_text())["met"]]


def topics(line: str) -> list[Topic]:
    """What is known of a line, without the words around a cause."""
    return [one for one in knowledge.lookup(line) if one.kind != knowledge.AROUND]


def score(met: Met) -> str:
    """Return RIGHT if the page of a line says what it means, WRONG if it says something else."""
    found = topics(met.line)
    page = "\n".join(f"{one.title}\n{one.here}\n{one.cause}\n{one.advice}" for one in found)
    if not found:
        return UNKNOWN
    return RIGHT if all(word.lower() in page.lower() for word in met.says) else WRONG


def test_they_are_sixty() -> None:
    assert len(MET) == len({one.line for one in MET}) == 60
    assert all(one.source and one.means and one.says for one in MET)


@pytest.mark.parametrize("met", MET, ids=range(len(MET)))
def test_in_korean_as_in_english(met: Met) -> None:
    names = [one.name for one in topics(met.line)]
    korean = [one for one in knowledge.lookup(met.line, "ko") if one.kind != knowledge.AROUND]
    assert [one.name for one in korean] == names


_START = "OCI runtime create failed: runc create failed: unable to start container process: "
_NOT_FOUND = "executable file not found in $PATH"
KIN = [
    (f'{_START}exec: "gunicorn": {_NOT_FOUND}: unknown', "executable file not found"),
    (f'exec: "gunicorn": {_NOT_FOUND}', "executable file not found"),
    (f'helm-wrapper: exec: "helm": {_NOT_FOUND}', ""),
    (f'docker buildx: exec: "docker-buildx": {_NOT_FOUND}', ""),
    (f'go: missing Git command. exec: "git": {_NOT_FOUND}', ""),
    (f'unable to retrieve OCI runtime error (open /x): exec: "runc": {_NOT_FOUND}', ""),
    (f'error listing credentials - err: exec: "docker-credential-x": {_NOT_FOUND}', "credential"),
    ('error getting credentials: exec: "docker-credential-x": permission denied', "credential"),
    (f'WARN[0000] exec: "newgidmap": {_NOT_FOUND}', "newuidmap is not there"),
    (f'{_START}exec: "/entry.sh": permission denied: unknown', "exec: permission denied"),
    ('ansible: exec: "/usr/bin/python": permission denied', ""),
    ("pulling image: Get https://r/v2/: x509: certificate signed by unknown authority", "x509"),
    ("Unable to connect to the server: x509: certificate signed by unknown authority", ""),
    ("failed to call webhook: Post https://x: x509: certificate signed by unknown authority", ""),
    (f"{_START}open /proc/sys/net/x: no such file or directory", "sysctl cannot be set"),
    ("calico-node: open /proc/sys/net/ipv4/ip_forward: read-only file system", ""),
    (f"{_START}fork/exec /proc/self/exe: operation not permitted", "unshare: operation not"),
    ("panic: fork/exec /tmp/x: operation not permitted", ""),
    ("crun: clone: No space left on device", "clone: no space left on device"),
    ("write /data/x: no space left on device", "no space left on device"),
    ("listen tcp :80: bind: permission denied", "bind() to a port below 1024"),
    ("listen tcp :8080: bind: permission denied", ""),
]  # fmt: skip
"""The same words in other frames, and what is right there; "" for a frame that is not known."""


@pytest.mark.parametrize(("line", "name"), KIN, ids=range(len(KIN)))
def test_a_frame_decides_before_a_word(line: str, name: str) -> None:
    names = [one.name for one in topics(line)]
    assert len(names) == bool(name) and "".join(names).startswith(name), line


if __name__ == "__main__":
    for one in MET:
        names = [topic.name for topic in topics(one.line)]
        print(f"{score(one):8} {one.line[:90]!r}: {names}")


def test_none_is_wrong_and_most_are_known() -> None:
    scores = {one.line: score(one) for one in MET}
    counts = {kind: list(scores.values()).count(kind) for kind in (RIGHT, WRONG, UNKNOWN)}
    print(counts)
    assert [line for line, kind in scores.items() if kind == WRONG] == []
    assert counts[RIGHT] >= 50, counts
