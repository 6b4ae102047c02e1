"""Running minirun under strace, and the containers that are looked at so."""

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import Program
from minirun.faces.show.log.event import Event
from minirun.faces.teach.oracle import witness
from minirun.faces.teach.oracle.findings import Report
from minirun.faces.teach.oracle.witness import Watched
from minirun.faces.teach.strace import Call

GPUS = ("--gpus", "0,1", "--gpu-driver=simulated")
USER = ("--uidmap", "0:100000:65536")


class Seen(NamedTuple):
    """A command that ran under strace, and what its comparison found."""

    watched: Watched
    report: Report


Check = Callable[..., Report]


def look(program: Program, directory: Path, *args: str, join: tuple[int, ...] = ()) -> Seen:
    """Run a minirun command under strace. Its output goes to files: a container may live on."""
    output = directory / "strace.out"
    with (directory / "said").open("wb") as said:
        watched = witness.watch(
            program.argv(*args), output, join=join,
            stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        )  # fmt: skip
    return Seen(watched, witness.judge(watched))


def pairs(report: Report) -> list[tuple[Event, Call]]:
    """Events and the calls that they agree with."""
    return [(f.event, f.call) for f in report.findings if f.event and f.call and not f.problem]


def matched(report: Report) -> Counter[str]:
    """Name of an event → how many of them agreed with their call."""
    return Counter(event.name for event, _ in pairs(report))


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Run minirun under strace, compare, insist on both directions, return what agreed."""

    def run(minirun: Program, *args: str, status: int = 0, join: tuple[int, ...] = ()) -> Report:
        watched, report = look(minirun, tmp_path, *args, join=join)
        assert watched.status == status, (tmp_path / "said").read_text()
        assert not report.untrue, "\n".join(report.untrue)
        assert not report.missing, "\n".join(report.missing)
        return report

    return run


@pytest.fixture
def bundle(minirun: Program, layer: Path) -> Path:
    """A bundle with all that a config.json can ask of the kernel, and hooks of every kind."""
    return full_bundle(minirun, layer)


def full_bundle(minirun: Program, layer: Path) -> Path:
    """Make that bundle, in the directory above `layer`."""
    config = plain_config(minirun, layer)
    config["domainname"] = "example.org"
    process, linux = config["process"], config["linux"]
    process["noNewPrivileges"] = True
    process["user"] = {"uid": 7, "gid": 8, "additionalGids": [9, 10]}
    process["capabilities"] |= {"inheritable": ["CAP_KILL"], "ambient": ["CAP_KILL"]}
    linux["sysctl"] = {"net.ipv4.ip_forward": "1"}
    linux["rootfsPropagation"] = "private"
    linux["resources"].pop("pids", None)  # a hybrid machine's cgroup2 has no such controller
    linux["seccomp"] = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["reboot"], "action": "SCMP_ACT_ERRNO"}],
    }
    on_host = {"path": "/bin/sh", "args": ["sh", "-c", "mkfifo fifo; rm fifo; unshare -m true"]}
    inside: dict[str, Any] = {"path": "/bin/true", "env": ["A=1"]}
    kinds = ("prestart", "createRuntime", "createContainer", "poststart", "poststop")
    config["hooks"] = {kind: [on_host, on_host] for kind in kinds} | {"startContainer": [inside]}
    return save(layer.parent, config)


def plain_config(program: Program, layer: Path) -> dict[str, Any]:
    """The config.json of a container that sleeps, with `layer` as its root filesystem."""
    config: dict[str, Any] = program.spec("sleep", "100")
    config["root"]["path"] = str(layer)
    return config


def save(directory: Path, config: dict[str, Any]) -> Path:
    """Make a bundle of a directory."""
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def with_command(bundle: Path, *args: str) -> Path:
    """Give a bundle another command."""
    config = json.loads((bundle / "config.json").read_text())
    config["process"]["args"] = list(args)
    return save(bundle, config)
