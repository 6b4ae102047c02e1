"""linux.devices, labels, intelRdt, and what else a container is refused or warned of."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from conftest import skip
from spec.conftest import Bundle


def device(kind: str, path: str, major: int = 1, minor: int = 3, **more: Any) -> dict[str, Any]:
    return {"type": kind, "path": path, "major": major, "minor": minor, **more}


def test_devices_of_all_kinds(bundle: Bundle) -> None:
    rows = [
        device("c", "/dev/a", fileMode=0o640, uid=3, gid=4), device("u", "/dev/deep/b", 1, 5),
        device("b", "/dev/c", 7, 200, fileMode=0o600), {"type": "p", "path": "/dev/d"},
        device("c", "/elsewhere/e", fileMode=0),
    ]  # fmt: skip
    script = "stat -c '%n %F %t:%T %a %u:%g' /dev/a /dev/deep/b /dev/c /dev/d /elsewhere/e"
    said = bundle.says(script, linux__devices=rows).splitlines()
    assert said == [
        "/dev/a character special file 1:3 640 3:4",
        "/dev/deep/b character special file 1:5 666 0:0",
        "/dev/c block special file 7:c8 600 0:0", "/dev/d fifo 0:0 666 0:0",
        "/elsewhere/e character special file 1:3 0 0:0",
    ]  # fmt: skip


def test_a_slash_behind_a_devices_name(bundle: Bundle) -> None:
    rows = [device("c", "/dev/a/", 1, 5), device("c", "/dev/null//", 1, 3, fileMode=0o600)]
    said = bundle.says("stat -c '%n %t:%T %a' /dev/a /dev/null", linux__devices=rows)
    assert said.splitlines() == ["/dev/a 1:5 666", "/dev/null 1:3 600"]


def test_default_devices_and_links(bundle: Bundle) -> None:
    said = bundle.says(
        "cd /dev; stat -c '%n %t:%T' null zero full random urandom tty; ls -l | grep -c ^l"
    )
    assert said.splitlines() == [
        "null 1:3", "zero 1:5", "full 1:7", "random 1:8", "urandom 1:9", "tty 5:0", "5",
    ]  # fmt: skip


def test_a_tunnel_may_be_opened(bundle: Bundle) -> None:
    """By the rules that each container has; without a driver it is "No such device"."""
    rows = [device("c", "/dev/net/tun", 10, 200), device("c", "/dev/other", 1, 11)]
    rules = [{"allow": False, "access": "rwm"}]
    said = bundle.says(
        "for d in net/tun other; do (: < /dev/$d) 2>&1; done; true",
        linux__devices=rows, linux__resources={"devices": rules},
    )  # fmt: skip
    assert "/dev/other: Operation not permitted" in said
    assert "/dev/net/tun: Operation not permitted" not in said


def test_a_device_that_is_there_already(bundle: Bundle) -> None:
    (bundle.rootfs / "here").write_text("a file")
    said = bundle.refuses(linux__devices=[device("c", "/here")])
    assert "config.json: linux.devices: /here is there already, and is not c 1:3" in said
    (bundle.rootfs / "here").unlink()
    os.mknod(bundle.rootfs / "here", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    assert bundle.says("ls /here", linux__devices=[device("c", "/here")]) == "/here"
    assert "is not a FIFO" in bundle.refuses(linux__devices=[{"type": "p", "path": "/here"}])


@pytest.mark.parametrize(
    ("changes", "where", "module"),
    [
        ({"process__apparmorProfile": "acme"}, "process.apparmorProfile", "AppArmor"),
        ({"process__selinuxLabel": "u:r:t:s0"}, "process.selinuxLabel", "SELinux"),
        ({"linux__mountLabel": "u:r:t:s0"}, "linux.mountLabel", "SELinux"),
    ],
)
def test_a_label_without_its_module(
    bundle: Bundle, changes: dict[str, Any], where: str, module: str
) -> None:
    there = {"AppArmor": "/sys/module/apparmor", "SELinux": "/sys/fs/selinux/enforce"}[module]
    if Path(there).exists():
        skip(f"this kernel has {module}")
    done = bundle.run("echo ran", **changes)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert done.stderr.startswith(
        f"minirun: warning: config.json: {where}: {module} is not enabled"
    )
    notes = [e["args"] for e in bundle.program.events(bundle.name) if e["kind"] == "note"]
    assert {"property": where} in notes


def test_unconfined_is_what_there_is_without_apparmor(bundle: Bundle) -> None:
    """containerd writes the word for a container that asks for no profile."""
    if Path("/sys/module/apparmor").exists():
        skip("this kernel has AppArmor")
    done = bundle.run("echo ran", process__apparmorProfile="unconfined")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    bundle.create("sleep 100", process__apparmorProfile="unconfined")
    bundle.program("start", bundle.name)
    for profile, said in (("unconfined", ""), ("acme", "AppArmor is not enabled")):
        done = bundle.program("exec", "--apparmor", profile, bundle.name, "true")
        assert done.returncode == 0 and said in done.stderr and bool(said) == bool(done.stderr)


def test_intel_rdt_is_refused(bundle: Bundle) -> None:
    said = bundle.refuses(linux__intelRdt={"closID": "x"})
    assert "config.json: linux.intelRdt: is not supported" in said


@pytest.mark.parametrize("version", ["1.0.0", "1.2.1", "1.3.0", "1.4.0-dev"])
def test_versions_of_the_specification(bundle: Bundle, version: str) -> None:
    assert bundle.says("echo ran", ociVersion=version) == "ran"


def test_home(bundle: Bundle) -> None:
    (bundle.rootfs / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nme:x:7:7::/at/home:/x\n")
    env = [row for row in bundle.config["process"]["env"] if not row.startswith("HOME=")]
    show = "echo $HOME"
    assert bundle.says(show, process__env=env) == "/root"
    assert bundle.says(show, process__env=env, process__user={"uid": 7, "gid": 7}) == "/at/home"
    assert bundle.says(show, process__env=env, process__user={"uid": 8, "gid": 7}) == "/"
    assert bundle.says(show, process__env=[*env, "HOME=/x"]) == "/x"
    for last in ("HOME=",), ("HOME=/x", "HOME="):
        assert bundle.says("env | grep -c ^HOME=/root", process__env=[*env, *last]) == "1"


def test_an_image_whose_passwd_is_a_trap(bundle: Bundle) -> None:
    passwd = bundle.rootfs / "etc/passwd"
    passwd.unlink()
    os.mkfifo(passwd)
    assert bundle.says("echo $HOME") == "/"
