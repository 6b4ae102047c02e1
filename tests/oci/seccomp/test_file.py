"""--security-opt seccomp=FILE: docker's format, and linux.seccomp as it stands in config.json."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from minirun.core.errors import UsageError
from minirun.oci.seccomp import file as seccomp_file

ALLOW, ERRNO = "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"


def load(
    tmp_path: Path, document: object, held: tuple[str, ...] = (), machine: str = "x86_64"
) -> Any:
    path = tmp_path / "profile.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return seccomp_file.load(str(path), held, machine)


def names(
    tmp_path: Path, row: dict[str, Any], held: tuple[str, ...] = (), **more: Any
) -> list[str]:
    """The calls of an entry that counts; none where it does not."""
    row = {"names": ["mkdir"], "action": ERRNO, **row}
    made = load(tmp_path, {"defaultAction": ALLOW, "syscalls": [row]}, held, **more)
    return [name for row in made["syscalls"] for name in row["names"]]


def test_the_plain_form_stays_as_it_is(tmp_path: Path) -> None:
    profile = {
        "defaultAction": ERRNO, "defaultErrnoRet": 38, "flags": ["SECCOMP_FILTER_FLAG_LOG"],
        "architectures": ["SCMP_ARCH_X86"],
        "syscalls": [{"names": ["read"], "action": ALLOW, "errnoRet": 2, "args": [{"index": 0}]}],
    }  # fmt: skip
    assert load(tmp_path, profile) == profile


def test_arch_map_goes_by_the_machine(tmp_path: Path) -> None:
    rows = [
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]},
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]},
    ]
    profile = {"defaultAction": ALLOW, "archMap": rows}
    assert load(tmp_path, profile)["architectures"] == ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"]
    assert load(tmp_path, profile, machine="aarch64")["architectures"][1] == "SCMP_ARCH_ARM"
    assert load(tmp_path, profile, machine="riscv64")["architectures"] == []


@pytest.mark.parametrize(
    ("row", "held", "counts"),
    [
        ({"includes": {"caps": ["CAP_BPF"]}}, (), False),
        ({"includes": {"caps": ["CAP_BPF"]}}, ("CAP_BPF",), True),
        ({"includes": {"caps": ["CAP_BPF", "CAP_KILL"]}}, ("CAP_BPF",), False),
        ({"excludes": {"caps": ["CAP_BPF"]}}, (), True),
        ({"excludes": {"caps": ["CAP_BPF", "CAP_KILL"]}}, ("CAP_KILL",), False),
        ({"includes": {"arches": ["arm64"]}}, (), False),
        ({"includes": {"arches": ["arm64", "amd64"]}}, (), True),
        ({"excludes": {"arches": ["amd64"]}}, (), False),
        ({"includes": {"minKernel": "4.8"}}, (), True),
        ({"includes": {"minKernel": "999.0"}}, (), False),
        ({"excludes": {"minKernel": "4.8"}}, (), False),
        ({"excludes": {"minKernel": "999.0"}, "includes": {}}, (), True),
        ({"includes": None, "args": None}, (), True),
        ({"name": "mkdir", "names": None}, (), True),
    ],
)
def test_what_counts(
    tmp_path: Path, row: dict[str, Any], held: tuple[str, ...], counts: bool
) -> None:
    assert names(tmp_path, row, held) == (["mkdir"] if counts else [])


ROW = {"names": ["mkdir"], "action": ERRNO}


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("{", ""),
        ([], "no defaultAction in it"),
        ({"syscalls": []}, "no defaultAction in it"),
        ({"defaultAction": ALLOW, "syscalls": {}}, "syscalls: not a list of objects"),
        ({"defaultAction": ALLOW, "syscalls": {"a": 1}}, "syscalls: not a list of objects"),
        ({"defaultAction": ALLOW, "archMap": [1]}, "archMap: not a list of objects"),
        (
            {"defaultAction": ALLOW, "archMap": [{}], "architectures": ["SCMP_ARCH_X86"]},
            "both architectures and archMap are specified",
        ),
        (
            {"defaultAction": ALLOW, "syscalls": [{**ROW, "name": "rmdir"}]},
            "syscalls[0]: both name and names are specified",
        ),
        (
            {"defaultAction": ALLOW, "syscalls": [ROW, {**ROW, "includes": []}, "x"]},
            "syscalls: not a list of objects",
        ),
        (
            {"defaultAction": ALLOW, "syscalls": [ROW, {**ROW, "includes": {"caps": "CAP_BPF"}}]},
            "syscalls[1].includes: not an object with lists",
        ),
        (
            {"defaultAction": ALLOW, "syscalls": [{**ROW, "includes": {"minKernel": "new"}}]},
            "syscalls[0]: minKernel 'new' is no kernel's version",
        ),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, document: object, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, document)
    line = caught.value.line()
    assert line.startswith(f"seccomp profile {tmp_path}/profile.json: {text}")
    assert "\n" not in line


def run(minirun: Program, *flags: str) -> tuple[int, str]:
    done = minirun("run", "--rm", *flags, "busybox", "sh", "-c", "mkdir /made && echo made")
    return done.returncode, done.stdout + done.stderr


def test_a_file_decides(minirun: Program, tmp_path: Path) -> None:
    path = tmp_path / "no-mkdir.json"
    path.write_text(json.dumps({"defaultAction": ALLOW, "syscalls": [
        {"names": ["mkdir", "mkdirat"], "action": ERRNO, "excludes": {"caps": ["CAP_BPF"]}},
    ]}))  # fmt: skip
    option = ("--security-opt", f"seccomp={path}")
    assert run(minirun) == (0, "made\n")
    status, said = run(minirun, *option)
    assert (status, "Operation not permitted" in said) == (1, True)
    assert run(minirun, *option, "--cap-add", "BPF") == (0, "made\n")
    os.chdir(tmp_path)
    assert run(minirun, "--security-opt", "seccomp:no-mkdir.json")[0] == 1


def test_the_last_of_several_counts(minirun: Program) -> None:
    flags = ("--security-opt", "seccomp=/nowhere", "--security-opt", "seccomp=builtin")
    assert run(minirun, *flags) == (0, "made\n")


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("seccomp=/no/where", "opening seccomp profile /no/where failed: no such file or dir"),
        ("seccomp=/", "opening seccomp profile / failed: is a directory"),
        ("seccomp", 'invalid --security-opt: "seccomp" (seccomp=FILE|unconfined, '),
        ("seccomp=", 'invalid --security-opt: "seccomp="'),
        ("what", 'invalid --security-opt: "what"'),
        ("what=1", 'invalid --security-opt: "what=1"'),
        ("no-new-privileges=maybe", 'invalid --security-opt: "no-new-privileges=maybe"'),
        ("systempaths=confined", 'invalid --security-opt: "systempaths=confined"'),
        ("label=type:x", "--security-opt label=type:x: minirun gives no SELinux labels"),
    ],
)  # fmt: skip
def test_options_that_are_refused(minirun: Program, option: str, text: str) -> None:
    status, said = run(minirun, "--security-opt", option)
    assert status == 125
    assert said.startswith(f"minirun: {text}")
    assert said.count("\n") == 1
    assert minirun.left() == []


@pytest.mark.parametrize("option", ["apparmor=unconfined", "label=disable", "label:disable"])
def test_what_is_so_anyway_is_taken(minirun: Program, option: str) -> None:
    assert run(minirun, "--security-opt", option) == (0, "made\n")


def test_apparmor_where_the_kernel_has_none(minirun: Program) -> None:
    if Path("/sys/module/apparmor/parameters/enabled").exists():
        pytest.skip("this kernel has AppArmor")
    status, said = run(minirun, "--security-opt", "apparmor=docker-default")
    assert (status, said.count("\n")) == (125, 1)
    assert "AppArmor is not enabled in this kernel" in said
