"""What a filter says of a call, told before it is installed, is what the kernel then does."""

from typing import Any

import pytest

from minirun.core.kernel import libc, namespaces
from minirun.oci.exec import verdict
from minirun.oci.seccomp import profile as seccomp

CLONE, SETSID, READ = (libc.number(name) for name in ("clone", "setsid", "read"))
NEWUSER = namespaces.CLONE_NEWUSER


def rule(names: list[str], action: str, *args: dict[str, Any]) -> dict[str, Any]:
    return {"names": names, "action": f"SCMP_ACT_{action}", "args": list(args)}


def judged(default: str, *rules: dict[str, Any], call: int, args: tuple[int, ...] = ()) -> bool:
    config = {"defaultAction": f"SCMP_ACT_{default}", "syscalls": list(rules)}
    return verdict.lets_through(seccomp.load(config).bpf, call, *args)


MASKED = {"index": 0, "value": 0x7E020000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}


@pytest.mark.parametrize(
    ("default", "rules", "call", "args", "allowed"),
    [
        ("ALLOW", [], SETSID, (), True),
        ("ERRNO", [], SETSID, (), False),
        ("ERRNO", [rule(["setsid"], "ALLOW")], SETSID, (), True),
        ("ERRNO", [rule(["setsid"], "ALLOW")], READ, (), False),
        ("ALLOW", [rule(["setsid"], "KILL_PROCESS")], SETSID, (), False),
        ("ALLOW", [rule(["setsid"], "LOG")], SETSID, (), True),
        ("ERRNO", [rule(["clone"], "ALLOW", MASKED)], CLONE, (namespaces.CLONE_PARENT,), True),
        ("ERRNO", [rule(["clone"], "ALLOW", MASKED)], CLONE, (NEWUSER,), False),
    ],
)
def test_verdicts(
    default: str, rules: list[dict[str, Any]], call: int, args: tuple[int, ...], allowed: bool
) -> None:
    assert judged(default, *rules, call=call, args=args) is allowed
