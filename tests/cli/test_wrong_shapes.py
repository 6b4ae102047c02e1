"""Well-formed JSON of the wrong shape: each node of config.json, edits.json and state.json in turn.

Every command that reads them says one line of its own, never Python's, and none of them hangs.
"""

import json
from pathlib import Path

import pytest

from conftest import Program
from night import CASES
from shapes import FEW, VALUES, call, fault, nodes, replaced

ID = "shaped"
COMMANDS = (
    ("kill", ID, "0"), ("inspect", ID), ("inspect", "--json", ID),
    ("gpu", "why", ID), ("gpu", "why", "--json", ID), ("state", ID), ("ps", ID), ("ps", "-a"),
    ("list",), ("gpu", "ps"), ("timeline", ID), ("events", "--stats", ID), ("logs", ID),
    ("update", "--pids-limit", "50", ID), ("system", "df"),
    ("timeline",), ("export", "-o", "/dev/null", ID), ("pause", ID), ("resume", ID), ("gc", "-n"),
)  # fmt: skip


@pytest.fixture
def container(minirun: Program) -> Path:
    flags = ("--gpus", "0", "--gpu-driver", "simulated", "--mount", "type=tmpfs,dst=/t")
    done = minirun("run", "-d", "--name", ID, *flags, "busybox", "sleep", "1000")
    assert done.returncode == 0, done.stderr
    return minirun.directory(ID)


# a command may leave files open, since its process ends with it
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ["config.json", "edits.json", "state.json"])
def test_one_line_and_not_pythons(minirun: Program, container: Path, name: str) -> None:
    file = container / name
    text = file.read_text()
    faults: dict[str, list[str]] = {}
    for words in COMMANDS:  # each works as it is
        status, said = call(minirun, *words)
        assert status == 0, (words, said)
    for index, path in enumerate(nodes(json.loads(text))):
        values = VALUES if CASES else [FEW[index % len(FEW)]]
        for number, value in enumerate(values):
            file.write_text(replaced(text, path, value))
            turn = number + sum(map(ord, str(path)))
            some = COMMANDS if CASES else COMMANDS[turn % 5 :: 5]
            if CASES or (not number and len(path) < 3):  # it takes a process of its own
                some = (*some, ("exec", ID, "true"))
            for words in some:
                status, said = call(minirun, *words)
                if found := fault(status, said):
                    place = f"{' '.join(words)}: {found}"
                    faults.setdefault(place, []).append(f"{path} = {value!r}")
                if words[0] == "pause":
                    file.write_text(text)
                    call(minirun, "resume", ID)
                    file.write_text(replaced(text, path, value))
    file.write_text(text)
    assert not faults, "\n".join(
        f"{key}  ({len(value)}: {value[0]})" for key, value in faults.items()
    )
