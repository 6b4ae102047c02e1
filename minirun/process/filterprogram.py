"""A seccomp filter as the kernel takes it: a program of classic BPF that looks at one call.

The program finds struct seccomp_data in its memory (the call's number, the architecture, six
arguments: seccomp(2)), can compare, jump forward and return an action, and no more. Ours is a
search tree for each architecture:

    ld  [4]                          the architecture
    jeq #0xc000003e, 0, next         x86_64?
    ld  [0]                          the number of the call
    jge #192, right half             … and so on, seven times
    ret #ALLOW                       for all numbers from here to the next that differs

A call that is judged by its arguments has a few more instructions in the place of its `ret`. An
architecture that is not named ends the process: its numbers mean other calls.

What the real stack does: runc and crun let libseccomp write the program. For the default profile it
takes 20 ms, which is as long as a start; this takes 2 (tests/process/test_filterprogram.py compares
what the two programs answer).

Where we simplify: of several rules with conditions that a call meets, the strictest counts, as with
the kernel where a process has several filters. libseccomp has an order of its own.
"""

from minirun.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Condition = tuple[int, int, int, int]
    """Argument's index, operator of OPERATORS, value, value two: seccomp_rule_add(3)."""
    Block = bytes

X86, X86_64, X32 = 0x40000003, 0xC000003E, 0x4000003E
"""linux/audit.h, AUDIT_ARCH_*. x32 is libseccomp's own: the kernel says x86_64 for it too."""
X32_BIT = 0x40000000
"""x32's calls are x86_64's with this bit in the number."""
KILL, ALLOW = 0x00000000, 0x7FFF0000

OPERATORS = {
    "SCMP_CMP_NE": 1, "SCMP_CMP_LT": 2, "SCMP_CMP_LE": 3, "SCMP_CMP_EQ": 4, "SCMP_CMP_GE": 5,
    "SCMP_CMP_GT": 6, "SCMP_CMP_MASKED_EQ": 7,
}  # fmt: skip
"""seccomp.h of libseccomp, enum scmp_compare."""
_NE, _LT, _LE, _EQ, _GE, _GT, _MASKED_EQ = OPERATORS.values()

_LD, _AND, _JA, _JEQ, _JGT, _JGE, _RET = 0x20, 0x54, 0x05, 0x15, 0x25, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_NO_CALL = 0xFFFFFFFF
"""The number that a tracer sets to skip a call: no x32 call, though it has the bit."""
_SHORT = 255
"""A conditional jump has 8 bits for its distance."""
_LOW = 0xFFFFFFFF
_64_BITS = (X86_64, 0xC00000B7)  # and aarch64


class Rule(Record):
    """An action for some system calls, where all conditions hold; none: always."""

    action: int
    calls: "tuple[str, ...]"
    conditions: "tuple[Condition, ...]" = ()


class Architecture(Record):
    """What one architecture needs: its token, and its number for each call."""

    token: int
    numbers: "Mapping[str, int]"
    newest: int = 0
    """Above this number calls get `ENOSYS`; 0: none does."""


def assemble(
    rules: "Sequence[Rule]", default: int, architectures: "Sequence[Architecture]", newer: int
) -> bytes:
    """Return the program.

    `default` is the action for a call without a rule, `newer` that for a call above an
    architecture's `newest`.
    """
    trees: "dict[int, dict[int, Block]]" = {}
    known = {architecture.token for architecture in architectures}
    for architecture in architectures:
        token = X86_64 if architecture.token == X32 else architecture.token
        trees.setdefault(token, {}).update(_answers(rules, default, architecture, newer))
    if X86_64 in trees and X32 not in known:
        trees[X86_64][X32_BIT] = _return(KILL)
        trees[X86_64][_NO_CALL] = _return(default)
    program = _instruction(_RET, KILL)
    for token, starts in reversed(trees.items()):
        body = _instruction(_LD, _NUMBER) + _tree(sorted(starts.items()))
        program = _unless_equal(token, body) + body + program
    return _instruction(_LD, _ARCHITECTURE) + program


def allowed(rules: "Sequence[Rule]", numbers: "Mapping[str, int]") -> int:
    """Return how many calls rules let through, of those that have a number here."""
    names = {call for rule in rules if rule.action == ALLOW for call in rule.calls}
    return len({numbers[name] for name in names if numbers.get(name, -1) >= 0})


def _answers(
    rules: "Sequence[Rule]", default: int, architecture: Architecture, newer: int
) -> "dict[int, Block]":
    """Return where in the row of all numbers another answer begins: {first number: block}."""
    found = _by_number(rules, architecture)
    x32 = architecture.token == X32
    after = X32_BIT if x32 else 0
    refuse = _return(default)
    starts = {after: refuse}
    last = refuse
    wide = architecture.token in _64_BITS
    blocks: "dict[tuple[Rule, ...], Block]" = {}
    for number in sorted(found):
        chosen = found[number]
        block = blocks.get(chosen)
        if block is None:
            block = blocks[chosen] = _judge(chosen, default, wide=wide)
        if number > after and last != refuse:
            starts[after] = last = refuse
        if block != last:
            starts[number] = last = block
        after = number + 1
    starts[after] = refuse
    if architecture.newest and not x32:
        starts[max(architecture.newest + 1, after)] = _return(newer)
        if architecture.token == X86_64:
            starts[X32_BIT] = refuse
    return starts


def _by_number(
    rules: "Iterable[Rule]", architecture: Architecture
) -> "dict[int, tuple[Rule, ...]]":
    """Return the rules that count for each number: the first without a condition, else all."""
    found: "dict[int, tuple[Rule, ...]]" = {}
    for rule in rules:
        plain = (Rule(rule.action, (), rule.conditions),)
        for call in rule.calls:
            number = architecture.numbers.get(call, -1)
            if number >= 0:
                _add(found, number, plain)
            elif architecture.token == X86 and -300 < number < -100:
                for place, own in _twofold(call, number, rule):
                    _add(found, place, (own,))
    return found


def _add(found: "dict[int, tuple[Rule, ...]]", number: int, rule: "tuple[Rule]") -> None:
    old = found.get(number)
    if old is None or (old[0].conditions and not rule[0].conditions):
        found[number] = rule
    elif old[0].conditions:
        found[number] = old + rule


_SOCKETS = (
    "socket", "socketpair", "bind", "connect", "listen", "accept4", "getsockopt", "setsockopt",
    "getsockname", "getpeername", "sendto", "sendmsg", "recvfrom", "recvmsg", "shutdown",
)  # fmt: skip
_SYSTEM_V = (
    "semget", "semctl", "shmget", "shmctl", "shmat", "shmdt", "msgget", "msgsnd", "msgrcv",
    "msgctl",
)  # fmt: skip
_DIRECT = {
    **{name: 359 + at for at, name in enumerate(_SOCKETS)},
    **{name: 393 + at for at, name in enumerate(_SYSTEM_V)},
    "recvmmsg": 337, "sendmmsg": 345,
}  # fmt: skip
"""Calls that 32-bit x86 has twice, and here their own numbers: asm/unistd_32.h."""
_SOCKETCALL, _IPC = 102, 117


def _twofold(call: str, number: int, rule: Rule) -> "Iterable[tuple[int, Rule]]":
    """Return where 32-bit x86 has a call of sockets or of System V IPC, and the rule at each place.

    There they are also behind one number each, socketcall and ipc, whose first argument says which:
    -101 is socketcall's first. Their further arguments lie in memory, where no filter can look, so
    conditions on them are left out.
    """
    if call in _DIRECT:
        yield _DIRECT[call], Rule(rule.action, (), rule.conditions)
    behind, which = (_SOCKETCALL, -100) if number > -200 else (_IPC, -200)
    yield behind, Rule(rule.action, (), ((0, _EQ, which - number, 0),))


def _judge(rules: "tuple[Rule, ...]", default: int, *, wide: bool) -> bytes:
    """Return what answers a call that has these rules."""
    block = _return(default) if rules[-1].conditions else b""
    for rule in sorted(rules, key=lambda rule: _severity(rule.action), reverse=True):
        body = _return(rule.action)
        for condition in reversed(rule.conditions):
            body = _check(condition, len(body) // 8, wide=wide) + body
        block = body + block
    return block


def _severity(action: int) -> int:
    """Return the place of an action in the kernel's own order: KILL_PROCESS is 0x80000000."""
    kind = action & 0xFFFF0000
    return kind - (1 << 32) if kind >> 31 else kind


def _check(condition: "Condition", after: int, *, wide: bool) -> bytes:
    """Return a condition's test: it goes on where it holds, else jumps over `after` instructions.

    Registers have 64 bits, a program's memory words of 32: the upper half decides first. On 32-bit
    architectures there is only the lower.
    """
    index, operator, value, second = condition
    mask = value if operator == _MASKED_EQ else (1 << 64) - 1
    datum = second & mask if operator == _MASKED_EQ else value
    lower, upper = _ARGUMENTS + 8 * index, _ARGUMENTS + 8 * index + 4
    test = _half(lower, operator, datum & _LOW, mask & _LOW, after)
    if not wide:
        return test
    rest = len(test) // 8
    high = datum >> 32
    load = _masked(upper, mask >> 32)
    if operator in (_EQ, _MASKED_EQ):
        return load + _jump(_JEQ, 0, rest + after, high) + test
    if operator == _NE:
        return load + _jump(_JEQ, 0, rest, high) + test
    if operator in (_GT, _GE):
        return load + _jump(_JGT, rest + 1, 0, high) + _jump(_JEQ, 0, rest + after, high) + test
    return load + _jump(_JGT, rest + after + 1, 0, high) + _jump(_JEQ, 0, rest, high) + test


def _half(offset: int, operator: int, value: int, mask: int, after: int) -> bytes:
    """Return the test of one word."""
    code = {_GT: _JGT, _LE: _JGT, _GE: _JGE, _LT: _JGE}.get(operator, _JEQ)
    holds = operator in (_EQ, _MASKED_EQ, _GT, _GE)
    jump = _jump(code, 0, after, value) if holds else _jump(code, after, 0, value)
    return _masked(offset, mask) + jump


def _masked(offset: int, mask: int) -> bytes:
    load = _instruction(_LD, offset)
    return load if mask == _LOW else load + _instruction(_AND, mask)


def _tree(rows: "Sequence[tuple[int, Block]]") -> bytes:
    """Return a search among blocks, each of which answers from its first number to the next's."""
    if len(rows) == 1:
        return rows[0][1]
    middle = len(rows) // 2
    below, above = _tree(rows[:middle]), _tree(rows[middle:])
    over = len(below) // 8
    first = rows[middle][0]
    if over > _SHORT:
        return _jump(_JGE, 0, 1, first) + _instruction(_JA, over) + below + above
    return _jump(_JGE, over, 0, first) + below + above


def _unless_equal(value: int, body: bytes) -> bytes:
    """Return a jump over `body` where the value differs."""
    over = len(body) // 8
    if over > _SHORT:
        return _jump(_JEQ, 1, 0, value) + _instruction(_JA, over)
    return _jump(_JEQ, 0, over, value)


def _return(action: int) -> bytes:
    return _instruction(_RET, action)


def _instruction(code: int, value: int) -> bytes:
    """Return struct sock_filter without a jump: linux/filter.h."""
    return _jump(code, 0, 0, value)


def _jump(code: int, yes: int, no: int, value: int) -> bytes:
    return code.to_bytes(2, "little") + bytes((yes, no)) + value.to_bytes(4, "little")
