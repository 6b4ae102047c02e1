"""Names, kernel parameters and paths of a container, seen from inside."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import wait_until
from spec.conftest import Bundle


def test_host_name_and_domain_name(bundle: Bundle) -> None:
    said = bundle.says(
        "hostname; cat /proc/sys/kernel/domainname", hostname="a-host", domainname="a.domain"
    )
    assert said.split() == ["a-host", "a.domain"]


def test_sysctls(bundle: Bundle) -> None:
    wanted = {"net.ipv4.ip_forward": "1", "net/core/somaxconn": "77", "kernel.shmmni": "99"}
    said = bundle.says(
        "cd /proc/sys; cat net/ipv4/ip_forward net/core/somaxconn kernel/shmmni",
        linux__sysctl=wanted,
    )
    assert said.split() == ["1", "77", "99"]


def test_a_sysctl_of_a_user_namespace(bundle: Bundle) -> None:
    """How many namespaces its users may make: namespaces(7); runc has it from 1.5 on."""
    key, maps = "user.max_user_namespaces", [{"containerID": 0, "hostID": 100000, "size": 65536}]
    bundle.let_others_in()
    said = bundle.says(
        "cat /proc/sys/user/max_user_namespaces", linux__sysctl={key: "3"},
        linux__namespaces=bundle.namespaces({"type": "user"}),
        linux__uidMappings=maps, linux__gidMappings=maps,
    )  # fmt: skip
    assert said == "3"
    said = bundle.refuses(linux__sysctl={key: "3"})
    assert f"linux.sysctl.{key}: needs a user namespace of the container's own" in said


@pytest.mark.parametrize(
    ("key", "text"),
    [("vm.swappiness", "is not separate per container"), ("net.nosuch", "cannot be set to '1'")],
)
def test_a_sysctl_that_is_refused(bundle: Bundle, key: str, text: str) -> None:
    said = bundle.refuses(linux__sysctl={key: "1"})
    assert f"config.json: linux.sysctl.{key}: {text}" in said


@pytest.mark.parametrize("key", ["net.ipv4.conf.all.log_martians", "kernel.shmmni"])
def test_a_sysctl_of_the_hosts_namespace_by_path(bundle: Bundle, key: str) -> None:
    """docker's --network host names the host's namespace by a path, and passes --sysctl on."""
    file = Path("/proc/sys", key.replace(".", "/"))
    before = file.read_text()
    kind, name = ("network", "net") if key.startswith("net.") else ("ipc", "ipc")
    rows = bundle.namespaces({"type": kind, "path": f"/proc/self/ns/{name}"})
    said = bundle.refuses(linux__namespaces=rows, linux__sysctl={key: before.strip()})
    assert f"linux.sysctl.{key}: needs a {kind} namespace of the container's own" in said
    with subprocess.Popen(["unshare", f"--{name}", "sleep", "60"]) as other:
        wait_until(
            lambda: (
                os.readlink(f"/proc/{other.pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}")
            )
        )
        rows = bundle.namespaces({"type": kind, "path": f"/proc/{other.pid}/ns/{name}"})
        script = f"cat {file}"
        changes = {"linux__namespaces": rows, "linux__sysctl": {key: "1"}}
        said = bundle.says(script, **changes)
        other.kill()
    assert said == "1" and file.read_text() == before


def test_masked_and_read_only_paths(bundle: Bundle) -> None:
    said = bundle.says(
        "wc -c </proc/version; ls /proc/bus | wc -l; echo 2>/dev/null >/proc/sys/kernel/x; echo $?",
        linux__maskedPaths=["/proc/version", "/proc/bus"], linux__readonlyPaths=["/proc/sys"],
    )  # fmt: skip
    assert said.split() == ["0", "0", "1"]


def test_hidden_directories_have_one_file_system(bundle: Bundle) -> None:
    """Of three there is one superblock, as with runc from 1.3 on; nothing can be written there."""
    paths = ["/proc/bus", "/proc/fs", "/usr"]
    script = f"stat -c %d {' '.join(paths)} | sort -u | wc -l; ls {' '.join(paths)} | grep -v :"
    script += "; touch /usr/x /proc/bus/x 2>&1"
    said = bundle.says(f"{script} | grep -c Read-only", linux__maskedPaths=paths)
    assert said.split() == ["1", "2"]


@pytest.mark.parametrize(
    "changes",
    [{"someday": {"a": [1]}}, {"process__someday": 1}, {"linux__someday": {}}, {"windows": {}}],
)
def test_what_it_does_not_know_it_passes_over(bundle: Bundle, changes: dict[str, Any]) -> None:
    assert bundle.says("echo ran", **changes) == "ran"


def test_a_second_process_has_the_containers_umask(bundle: Bundle) -> None:
    """`exec --process` with a file that says none: as with runc from 1.2 on."""
    bundle.create(process__user={"uid": 0, "gid": 0, "umask": 0o27})
    bundle.program("start", bundle.name)
    process = {"cwd": "/", "args": ["sh", "-c", "umask"], "env": ["PATH=/bin"]}
    (bundle.path / "p.json").write_text(json.dumps(process))
    done = bundle.program("exec", "--process", f"{bundle.path}/p.json", bundle.name)
    assert done.stdout == "0027\n", done.stderr
