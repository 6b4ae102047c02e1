"""Lines as people type them, in groups, with minirun and with docker: lines/*.txt.

A group begins with nothing but the image: IMAGE. Compared are the status, what is printed, without
ids, times, sizes and addresses, and whether a line goes to standard error. Below a line may stand

    differs: REASON     it differs, and is to
    fault: REASON       it differs, and should not: the group's test ends as an expected failure
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from beside import Beside, Side
from engines.clients import images
from engines.clients.engine import IMAGE
from net.hosts import host
from required import installed

FOLDER = Path(__file__).with_name("lines")
COUNTED = "| wc -l"
MASKS = (
    (r"\b[0-9a-f]{64}\b", "ID"),
    (r"\b[0-9a-f]{12}\b", "ID"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?Z| \+0000 UTC)?", "TIME"),
    (r"\b(Less than a second|About an? \w+|\d+ (second|minute|hour|day)s?)( ago)?\b", "AGO"),
    (r"\b\d+(\.\d+)?(e\+\d+)?[kMG]?B\b", "SIZE"),
    (r"\b(10|172)(\.\d+){3}\b", "ADDRESS"),
    (r"[ \t]{2,}", "  "),
    (r"[ \t]+$", ""),
)
"""What is another in each run → what is compared in its place."""


class Line(NamedTuple):
    """One line of a group."""

    text: str
    kind: str = ""
    """differs, or fault; else it is the same with both."""
    reason: str = ""


def groups() -> Iterator[tuple[str, list[Line]]]:
    """Yield each group's name, and its lines."""
    for path in sorted(FOLDER.glob("*.txt")):
        for part in re.split(r"^== ", path.read_text(), flags=re.M)[1:]:
            name, *rows = filter(None, part.splitlines())
            lines: list[Line] = []
            for row in rows:
                if row.startswith("docker"):
                    lines.append(Line(row))
                else:
                    kind, _, reason = row.strip().partition(": ")
                    assert kind in ("differs", "fault") and reason, f"{path}: {row}"
                    lines[-1] = lines[-1]._replace(kind=kind, reason=reason)
            yield name, lines


GROUPS = dict(groups())


def typed(side: Side, *lines: str) -> list[tuple[int, str, str]]:
    """Type the lines of a group; return the status of each, and what it wrote to both streams."""
    answers = []
    for line in lines:
        done = side.call(*words_of(side, line), timeout=90)
        out = done.stdout
        if line.endswith(COUNTED):
            out = f"{len(out.splitlines())}"
        answers.append((done.returncode, _masked(out), _masked(done.stderr).partition("\n")[0]))
    _wipe(side)
    return answers


def words_of(side: Side, line: str) -> list[str]:
    """Return the arguments of a line; $(docker …) is what that prints."""

    def printed(found: re.Match[str]) -> str:
        return " ".join(side.call(*words_of(side, found[1])).stdout.split())

    line = re.sub(r"\$\((docker .*?)\)", printed, line.removesuffix(COUNTED))
    return [word.replace("IMAGE", IMAGE) for word in shlex.split(line)[1:]]


def _masked(text: str) -> str:
    for pattern, word in MASKS:
        text = re.sub(pattern, word, text, flags=re.M)
    return text


def _wipe(side: Side) -> None:
    """Leave nothing but the image."""
    for kind, listed, removed in (
        ("", "ps -aq", "rm -fv"), ("", "volume ls -q", "volume rm"),
        ("bridge host none", "network ls --format {{.Name}}", "network rm"),
        (IMAGE, "images -a --format {{.Repository}}:{{.Tag}}", "rmi -f"),
    ):  # fmt: skip
        found = set(side.call(*listed.split()).stdout.split()) - set(kind.split())
        for each in sorted(found):
            side.call(*removed.split(), each)
    side.call("image", "prune", "-f")


@pytest.fixture(scope="module")
def sides(
    request: pytest.FixtureRequest, command: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Beside]:
    """minirun on a host of its own, with docker's image, and docker."""
    for program in ("ip", "nft"):
        installed(program)
    folder = tmp_path_factory.mktemp("lines")
    with host(command, folder, has_images=False) as found:
        found.run("load", "-i", str(images.archive(folder / "image.tar", IMAGE)))
        found.run("run", "--rm", IMAGE, "true")  # with which there is the default network
        made = Beside(found, request.config.option.peers, None)
        yield made
        made.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPS)
def test_a_group_is_as_with_docker(beside: Beside, name: str) -> None:
    lines = GROUPS[name]
    ours, theirs = beside.both(typed, *(line.text for line in lines))
    wrong, faults = [], []
    for line, mine, its in zip(lines, ours, theirs, strict=True):
        is_same = mine[:2] == its[:2] and bool(mine[2]) == bool(its[2])
        if is_same and line.kind:
            wrong.append(f"{line.text}\n  is the same by now")
        elif not is_same and not line.kind:
            wrong.append(f"{line.text}\n  minirun {mine}\n  docker  {its}")
        elif line.kind == "fault":
            faults.append(f"{line.text}: {line.reason}")
    assert not wrong, "\n".join(wrong)
    if faults:
        pytest.xfail("; ".join(faults))
