"""The documents that `inspect` prints, whole, beside docker's: which keys they have, and what a
command line leaves in them. What differs is in lists, with its reason.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beside import Beside, Side

CHECK = ("--health-cmd", "true", "--health-interval", "1h")


def prepare(side: Side) -> None:
    """Containers with a check of health and without one."""
    for name, flags in (("plain", ()), ("checked", CHECK)):
        words = ("create", "--name", name, "--network=none", *flags, side.image, "true")
        done = side.call(*words)
        assert done.returncode == 0, done.stderr


OPEN = ("Labels", "Ports", "Networks", "Data", "Volumes", "Options", "Driver", "Annotations")
"""What has names of the user's, or of a driver's, as its keys."""


def keys_of(side: Side, kind: str) -> list[str]:
    """The paths of all keys in the document of a new network or volume."""
    name = f"documents-{os.getpid()}"
    assert side.call(kind, "create", name).returncode == 0
    found = keys(side, kind, "inspect", name)
    assert side.call(kind, "rm", name).returncode == 0
    return found


def keys(side: Side, *words: str) -> list[str]:
    """The paths of all keys in the first document of a command."""
    (document,) = json.loads(side.call(*(side.image if w == "IMAGE" else w for w in words)).stdout)
    return sorted(_paths(document))


def _paths(value: Any, path: str = "") -> set[str]:
    if isinstance(value, list):
        return {each for one in value for each in _paths(one, f"{path}[]")}
    if not isinstance(value, dict):
        return set()
    found = set()
    for key, each in value.items():
        name = "*" if path.rpartition(".")[2] in OPEN else key
        found |= {f"{path}.{name}", *_paths(each, f"{path}.{name}")}
    return found


ENDPOINT = {
    ".NetworkSettings.Networks.*.DNSNames": "docker's since 25",
    ".NetworkSettings.Networks.*.GwPriority": "docker's since 28",
}
OLD = {
    f".HostConfig.{name}": "docker leaves it out since 23"
    for name in ("KernelMemory", "KernelMemoryTCP")
}
OF_CONFIG = (
    "Hostname", "Domainname", "User", "AttachStdin", "AttachStdout", "AttachStderr", "Tty",
    "OpenStdin", "StdinOnce", "Image", "Volumes", "WorkingDir", "Entrypoint", "OnBuild", "Labels",
)  # fmt: skip
OF_IMAGE = {
    ".Container": "docker has none since 26", ".ContainerConfig": "the same",
    ".VirtualSize": "the same",
    **{f".ContainerConfig.{name}": "the same" for name in (*OF_CONFIG, "Env", "Cmd")},
    **{f".Config.{name}": "docker leaves out what is empty since 28" for name in OF_CONFIG},
}  # fmt: skip
OURS_OF_IMAGE = {
    ".Annotations": "of the image's manifest", ".Annotations.*": "the same",
    ".Origin": "where it is from", ".Directories": "where its files are",
}  # fmt: skip
OURS_OF_NETWORK = {".EnableIPv4": "docker's since 28", ".Bridge": "the link on the host"}


@pytest.mark.parametrize(
    ("words", "left_out", "more"),
    [
        ("inspect plain", OLD, ENDPOINT), ("inspect checked", OLD, ENDPOINT),
        ("container inspect -s plain", OLD, ENDPOINT),
        ("inspect IMAGE", OF_IMAGE, OURS_OF_IMAGE),
    ],
)  # fmt: skip
def test_a_document_has_docker_s_keys(
    beside: Beside, words: str, left_out: dict[str, str], more: dict[str, str]
) -> None:
    ours, theirs = beside.both(keys, *words.split())
    assert set(theirs) - set(ours) == set(left_out), beside.explained(keys, *words.split())
    assert set(ours) - set(theirs) == set(more)


@pytest.mark.parametrize(("kind", "more"), [("network", OURS_OF_NETWORK), ("volume", {})])
def test_a_network_and_a_volume_have_docker_s_keys(
    beside: Beside, kind: str, more: dict[str, str]
) -> None:
    ours, theirs = beside.both(keys_of, kind)
    assert (set(theirs) - set(ours), set(ours) - set(theirs)) == (set(), set(more))


LINES = (
    ("", "true"),
    ("-i", "cat"),
    ("-t", "sh"),
    ("-a stdout", "true"),
    ("-e A=1", "sh -c 'echo  two'"),
    ("--init", "true"),
    ("--entrypoint sh", "-c 'exit 3'"),
    ("--expose 90-92 --expose 53/udp", "true"),
    ("-p 8080:80 -p 127.0.0.1::53/udp", "true"),
    ("--log-opt max-size=1m --log-opt max-file=3", "true"),
    ("-v VOLUME:/v -v /etc:/mnt:ro", "true"),
    ("--mount type=bind,src=/etc,dst=/m,readonly --mount type=tmpfs,dst=/t", "true"),
    ("--volumes-from plain --group-add 44 --label a=b", "true"),
    ("--tmpfs /x:size=1m --ulimit nofile=99:100 --sysctl net.core.somaxconn=77", "true"),
    ("-u 5:6 -w /tmp -h box --stop-timeout 3 --stop-signal INT", "true"),
    ("--health-cmd true --health-interval 2s --health-retries 4", "true"),
    ("--device-cgroup-rule 'c 1:3 rwm' --cgroup-parent /x", "true"),
)
APART = {
    "Config.Hostname": "the container's id", "Config.Image": "the image's name",
    "HostConfig.Runtime": "its name", "HostConfig.PidsLimit": "2048, as with podman",
    "HostConfig.CgroupnsMode": "private; docker's is host with cgroup 1",
    "HostConfig.MaskedPaths": "docker 20.10 has fewer", "HostConfig.ReadonlyPaths": "the same",
    **{path[1:]: reason for path, reason in OLD.items()},
}  # fmt: skip
"""Not compared."""


def document(side: Side, flags: str, command: str) -> dict[str, Any]:
    """What a line leaves in Config, HostConfig and Mounts, key by key."""
    volume = f"documents-{os.getpid()}"
    flags = flags.replace("VOLUME", volume)
    words = ("create", "--name", "one", "--network=none", *shlex.split(flags), side.image)
    side.call(*words, *shlex.split(command))
    shown = side.call("container", "inspect", "one").stdout
    side.call("rm", "-f", "one")
    side.call("volume", "rm", volume)
    (found,) = json.loads(shown.replace(volume, "VOLUME"))
    rows = {
        f"{part}.{name}": value
        for part in ("Config", "HostConfig")
        for name, value in found[part].items()
    }
    mounts = [{key: v for key, v in row.items() if key != "Source"} for row in found["Mounts"]]
    rows["Mounts"] = sorted(mounts, key=lambda row: str(row["Destination"]))
    return {name: value for name, value in rows.items() if name not in APART}


@pytest.fixture(scope="module", autouse=True)
def no_parent_stays() -> Iterator[None]:
    """What --cgroup-parent names is made, and stays: it is the user's."""
    yield
    top = Path("/sys/fs/cgroup")
    for path in filter(Path.is_dir, (top / "x", *top.glob("*/x"))):
        path.rmdir()


@pytest.mark.parametrize(("flags", "inside"), LINES)
def test_a_line_leaves_the_same_document(beside: Beside, flags: str, inside: str) -> None:
    beside.same(document, flags, inside)
