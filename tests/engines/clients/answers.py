"""All scenarios, by client; and what runc answers in each: runc.txt, which `make engines` writes.

A line of runc.txt is a client, a scenario, the check sum of its text, and runc's answer: "passed",
or why not, with what changes from run to run masked. So minirun alone runs in a test run.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from engines.clients import (
    buildah,
    cri,
    cri_life,
    ctr,
    ctr_tasks,
    docker,
    dockerlife,
    dockerlike,
    dockerremap,
    podman,
    slurm,
)

Scenario = Callable[[Any], None]
KEPT = Path(__file__).with_name("runc.txt")
HEAD = "# What runc {version} answers in each scenario; `make engines` writes it anew.\n"
PASSED, AGAIN = "passed", "passed at the second try"
"""ctr, for one, sometimes loses what a short command prints, with either runtime."""
MASKED = re.compile(r"\b[0-9a-f]{12,}\b|/tmp/mrc-\w+|[0-9]+")
"""Ids, the folder of an engine, and numbers: process ids, times, ports."""


def scenarios(*modules: object) -> list[Scenario]:
    """The scenarios of modules: the public functions that they define themselves."""
    return [
        function
        for module in modules
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and function.__module__ == getattr(module, "__name__", "")
        and not name.startswith("_")
    ]


CLIENTS = {
    "podman": scenarios(dockerlike, dockerlife, podman),
    "docker": scenarios(dockerlike, dockerlife, docker),
    "remap": scenarios(dockerremap),
    "ctr": scenarios(ctr, ctr_tasks),
    "cri": scenarios(cri, cri_life),
    "buildah": scenarios(buildah),
    "slurm": scenarios(slurm),
}


class KeptAnswer(NamedTuple):
    """One line of runc.txt, without client and scenario."""

    of: str
    """The scenario's check sum, when runc gave the answer."""
    text: str


def sum_of(scenario: Scenario) -> str:
    """The check sum of a scenario's text: a changed scenario has no answer yet."""
    return hashlib.sha256(inspect.getsource(scenario).encode()).hexdigest()[:8]


def masked(text: str) -> str:
    """The beginning of a text, with what is another at each run hidden."""
    return MASKED.sub("N", text)[:160].strip()


def version(runc: str) -> str:
    """What a runc calls its version, as "1.1.5+ds1"."""
    said = subprocess.run([runc, "--version"], capture_output=True, text=True, check=True).stdout
    return said.split()[2]


def read() -> tuple[str, dict[tuple[str, str], KeptAnswer]]:
    """Return runc's version in runc.txt, and its answers by client and scenario."""
    head, *lines = KEPT.read_text().splitlines()
    rows = [line.split(maxsplit=3) for line in lines]
    return head.split()[3], {
        (client, name): KeptAnswer(of, text) for client, name, of, text in rows
    }


def write(runc: str, rows: Iterable[tuple[str, str, str]]) -> None:
    """Write rows of client, scenario and answer; the answers of a client that did not run stay."""
    fresh = sorted(rows)
    ran = {client for client, _, _ in fresh}
    kept = read()[1] if KEPT.exists() else {}
    answers = {key: answer for key, answer in kept.items() if key[0] not in ran}
    sums = {(client, f.__name__): sum_of(f) for client, found in CLIENTS.items() for f in found}
    for client, name, text in fresh:
        answers[client, name] = KeptAnswer(
            sums[client, name], PASSED if text == AGAIN else masked(text)
        )
    lines = [f"{c:<8}{name:<52} {a.of} {a.text}\n" for (c, name), a in sorted(answers.items())]
    KEPT.write_text(HEAD.format(version=version(runc)) + "".join(lines))
