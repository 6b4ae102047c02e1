"""The program that minirun writes answers every call as libseccomp's does."""

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from minirun.process import filterprogram, seccomp
from minirun.process.filterprogram import X32_BIT, X86, X86_64, Rule
from process import libseccomp

if seccomp.seccomp.Names().native != X86_64:
    pytest.skip("the numbers here are x86's", allow_module_level=True)

ALLOW, KILL = 0x7FFF0000, 0x00000000
EPERM, ENOSYS, EINVAL = 0x00050001, 0x00050026, 0x00050016
ALL = ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]
CALLS = [
    *((X86_64, n) for n in (*range(560), 0x3FFFFFFF)),
    *((X86_64, X32_BIT + n) for n in (*range(560), 0x3FFFFFFE, 0x3FFFFFFF)),
    *((X86, n) for n in (*range(470), 0xFFFFFFFF)),
    (0xC00000B7, 1), (0, 0),
]  # fmt: skip
NAMES = (
    "read", "write", "openat", "getpid", "personality", "socket", "clone", "kill", "mmap2",
    "stat64", "shmget", "socketcall", "accept4", "arch_prctl", "recvmmsg", "semtimedop", "send",
    "ipc", "futex_time64", "no_such_call", "vmsplice", "utimes",
)  # fmt: skip
NE, LT, LE, EQ, GE, GT, MASKED_EQ = range(1, 8)


def both(rules: list[Rule], default: int, architectures: list[str]) -> tuple[bytes, bytes]:
    """Our program for some rules, and libseccomp's."""
    actions = {ALLOW: "SCMP_ACT_ALLOW", KILL: "SCMP_ACT_KILL"}
    operators = {number: name for name, number in seccomp.OPERATORS.items()}

    def action(value: int, key: str, number: str) -> dict[str, Any]:
        if value in actions:
            return {key: actions[value]}
        return {key: "SCMP_ACT_ERRNO", number: value & 0xFFFF}

    rows: list[dict[str, Any]] = []
    for rule in rules:
        keys = ("index", "op", "value", "valueTwo")
        args = [
            dict(zip(keys, (c[0], operators[c[1]], *c[2:]), strict=True)) for c in rule.conditions
        ]
        row = {"names": list(rule.calls), "args": args}
        rows.append(row | action(rule.action, "action", "errnoRet"))
    config = {"architectures": architectures, "syscalls": rows}
    config |= action(default, "defaultAction", "defaultErrnoRet")
    theirs = [rule for rule in rules if rule.action != default]
    short = [name.removeprefix("SCMP_ARCH_").lower() for name in architectures]
    return seccomp.load(config).bpf, libseccomp.compile(theirs, default, short)


def agree(ours: bytes, theirs: bytes, arguments: list[tuple[int, ...]]) -> None:
    for (token, number), args in itertools.product(CALLS, arguments):
        mine = libseccomp.answer(ours, token, number, *args)
        assert mine == libseccomp.answer(theirs, token, number, *args), (hex(token), number, args)


@pytest.mark.parametrize("architectures", [[], ALL[:2], ALL, [ALL[2]]], ids=len)
@pytest.mark.parametrize("default", [ENOSYS, ALLOW])
def test_lists_of_calls(default: int, architectures: list[str]) -> None:
    every = [Rule(ALLOW if default != ALLOW else EPERM, NAMES)]
    agree(*both(every, default, architectures), [(), (1,), (2**64 - 1,) * 6])


@pytest.mark.parametrize("operator", range(1, 8))
def test_conditions(operator: int) -> None:
    """At the borders of both halves of a register."""
    value = 0x12_0000_0034
    values = [value + n for n in (-(1 << 32), -1, 0, 1, 1 << 32)] + [0x34, 0, 2**64 - 1]
    masked = (0xFF_0000_00FF, value) if operator == MASKED_EQ else (value, 0)
    rules = [
        Rule(ALLOW, ("getpid", "personality", "socket"), ((1, operator, *masked),)),
        Rule(EPERM, ("read", "stat64"), ((0, operator, *masked), (3, operator, *masked))),
    ]
    arguments = [
        (a, b, 0, d) for a, b, d in itertools.product(values, repeat=3) if a == b or b == d
    ]
    ours, theirs = both(rules, ENOSYS, ALL)
    some = [*range(6), 39, 41, 135, 195, 359, 102, 20, 136]
    calls = [(X86_64, n) for n in some] + [(X86, n) for n in some] + [(X86_64, X32_BIT + 39)]
    for (token, number), args in itertools.product(calls, arguments):
        mine = libseccomp.answer(ours, token, number, *args)
        assert mine == libseccomp.answer(theirs, token, number, *args), (hex(token), number, args)


@pytest.mark.parametrize("seed", range(8))
def test_rules_at_random(seed: int) -> None:
    """Rules of one action; an entry without a condition wins over those with some."""
    chance = random.Random(seed)
    rules = [
        Rule(
            ALLOW,
            tuple(chance.sample(NAMES, 3)),
            tuple(
                (index, chance.choice([EQ, NE, GT, LE]), chance.choice([0, 1, 5, 1 << 33]), 0)
                for index in sorted(chance.sample(range(3), chance.randrange(3)))
            ),
        )
        for _ in range(8)
    ]
    arguments = list(itertools.product([0, 1, 6, 1 << 33], repeat=3))
    agree(*both(rules, ENOSYS, ALL), chance.sample(arguments, 4))


DEBIANS = Path("/usr/share/containers/seccomp.json")


def test_the_first_entry_without_a_condition_counts() -> None:
    for first, second in ((ALLOW, EPERM), (EPERM, ALLOW)):
        rules = [Rule(first, ("setns",)), Rule(second, ("setns", "unshare"))]
        agree(*both(rules, ENOSYS, ALL), [()])
    rules = [Rule(EPERM, ("socket",), ((0, EQ, 40, 0),)), Rule(ALLOW, ("socket",))]
    agree(*both(rules, ENOSYS, ALL[:1]), [(40,), (1,)])


def test_the_strictest_of_several_conditions_counts() -> None:
    rules = [
        Rule(ALLOW, ("socket",), ((0, GE, 0, 0),)),
        Rule(EPERM, ("socket",), ((0, MASKED_EQ, 0xFFFFFFFF, 40),)),
    ]
    for order in (rules, rules[::-1]):
        agree(*both(order, ENOSYS, ALL[:1]), [(40,), (41,), (40 + (1 << 32),)])


def test_a_long_program_jumps_far() -> None:
    """More than 255 instructions between a jump and its target, for every architecture."""
    numbers = {f"call{n}": n * 2 for n in range(400)}
    rules = [Rule(ALLOW, tuple(numbers))]
    tokens = (X86_64, X86, 0x40000028)
    made = filterprogram.assemble(
        rules, EPERM, [filterprogram.Architecture(token, numbers) for token in tokens], ENOSYS
    )
    assert len(made) // 8 > 2000
    for token, number in itertools.product(tokens, range(801)):
        right = EPERM if number % 2 or number >= 800 else ALLOW
        assert libseccomp.answer(made, token, number) == right
    assert libseccomp.answer(made, 0xC00000B7, 0) == KILL


def test_nothing_but_a_default() -> None:
    for default in (ALLOW, EPERM):
        agree(*both([], default, ALL), [()])


def test_debians_profile_of_a_container_without_capabilities() -> None:
    if not DEBIANS.exists():
        pytest.skip("golang-github-containers-common is not installed")
    rules = []
    for row in json.loads(DEBIANS.read_text())["syscalls"]:
        if row["includes"].get("caps"):
            continue
        number = row.get("errnoRet") or 0
        action = ALLOW if row["action"] == "SCMP_ACT_ALLOW" else 0x00050000 | number
        operators = seccomp.OPERATORS
        args = [(a["index"], operators[a["op"]], a["value"], 0) for a in row["args"] or []]
        rules.append(Rule(action, tuple(row["names"]), tuple(args)))
    agree(*both(rules, ENOSYS, ALL), [(), (16, 0, 9), (16, 0, 8), (8, 0, 9)])
