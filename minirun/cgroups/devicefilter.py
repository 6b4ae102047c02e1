"""The device program of cgroup2: assembled by hand from device rules, and read back.

Documentation/admin-guide/cgroup-v2.rst, "Device controller": there are no interface files. An
eBPF program of type BPF_PROG_TYPE_CGROUP_DEVICE, attached to the cgroup, runs at every open and
mknod of a device node by a process in it. It gets a struct bpf_cgroup_dev_ctx and returns 1
(permitted) or 0 (EPERM):

    struct bpf_cgroup_dev_ctx {     r1 points here
        __u32 access_type;          low half: 1 block, 2 char; high half: 1 mknod, 2 read, 4 write
        __u32 major;
        __u32 minor;
    };

The program looks at the rules from the last to the first, and the first one that covers the
request decides. w2 holds the wanted access; a permission takes its own share out of it, and when
nothing is left, the answer is yes. A denial that touches what is left answers no, and so does the
end. Per rule, for "c 195:0 rw":

    if w3 != 2 goto next            another kind of node
    if w4 != 195 goto next          another major number
    if w5 != 0 goto next            another minor number
    w2 &= ~6                        read and write are granted
    if w2 != 0 goto next            something else is wanted as well: earlier rules decide
    r0 = 1; exit

runc and crun build the same kind of program, but compare the whole request with each rule; there
"deny r" lets an open for reading and writing through, here it does not. NVIDIA's tool prepends its
own tests to whatever program is attached.
"""

from __future__ import annotations

import struct

from minirun.cgroups import reading, ruleset
from minirun.cgroups.rules import DeviceRule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LDX_W, MOV_X, AND_K, RSH_K = 0x61, 0xBC, 0x54, 0x74
JNE_K, JEQ_K, EXIT = 0x56, 0x16, 0x95
"""Opcodes, all on 32 bits (linux/bpf.h: class BPF_ALU, BPF_JMP32); _K takes a constant."""
MOV_K = 0xB7
"""On 64 bits, for the answer: exit reads all of r0. After one on 32 bits the verifier of a kernel
for i386 inserts a zero extension (verifier.c, opt_subreg_zext_lo32_rnd_hi32), and what is read
back would not be what was loaded."""

KINDS = {"b": 1, "c": 2}
KIND, MAJOR, MINOR = 3, 4, 5
"""The registers that hold what the node is; w2 holds the access that is wanted."""


def insn(code: int, dst: int = 0, src: int = 0, off: int = 0, imm: int = 0) -> bytes:
    """Pack one struct bpf_insn (linux/bpf.h): 8 bytes."""
    return struct.pack("<BBhI", code, src << 4 | dst, off, imm & 0xFFFFFFFF)


def prologue(wanted: int, kind: int) -> bytes:
    """Return the instructions that fill the registers MAJOR, MINOR, `wanted` and `kind`."""
    return (
        insn(LDX_W, wanted, 1, 0)
        + insn(MOV_X, kind, wanted)
        + insn(AND_K, kind, imm=0xFFFF)
        + insn(RSH_K, wanted, imm=16)
        + insn(LDX_W, MAJOR, 1, 4)
        + insn(LDX_W, MINOR, 1, 8)
    )


PROLOGUE = prologue(2, KIND)
YES = insn(MOV_K, 0, imm=1) + insn(EXIT)
NO = insn(MOV_K, 0, imm=0) + insn(EXIT)


def assemble(rules: Iterable[DeviceRule]) -> bytes:
    """Return the program for `rules`: packed instructions for bpf(2).

    Rules that later ones override are left out, so no instruction is unreachable and the verifier
    has nothing to remove.
    """
    blocks = [PROLOGUE]
    for rule in reversed(reading.effective(rules)):
        blocks.append(_block(rule))
        if rule == ruleset.ALL:
            return b"".join(blocks)
    return b"".join([*blocks, NO])


def _block(rule: DeviceRule) -> bytes:
    """Return the instructions of one rule."""
    tests = []
    if rule.kind != "a":
        tests.append((KIND, KINDS[rule.kind]))
    if rule.major is not None:
        tests.append((MAJOR, rule.major))
    if rule.minor is not None:
        tests.append((MINOR, rule.minor))
    verdict = _verdict(rule)
    after = len(tests) + len(verdict) // 8  # instructions up to the next block
    jumps = [insn(JNE_K, reg, 0, after - i - 1, value) for i, (reg, value) in enumerate(tests)]
    return b"".join(jumps) + verdict


def _verdict(rule: DeviceRule) -> bytes:
    """Return the instructions that answer yes or no if a rule's access fits."""
    mask = ruleset.bits(rule.access)
    if rule.access == "rwm":
        return YES if rule.allow else NO
    if rule.allow:
        return insn(AND_K, 2, imm=~mask) + insn(JNE_K, 2, 0, 2, 0) + YES
    return insn(MOV_X, 1, 2) + insn(AND_K, 1, imm=mask) + insn(JEQ_K, 1, 0, 2, 0) + NO


def decode(program: bytes) -> list[DeviceRule]:
    """Return the rules that a program of :func:`assemble` stands for, in their order.

    Raises ValueError for any other program.
    """
    if not program.startswith(PROLOGUE) or len(program) % 8:
        raise ValueError("not a device program of minirun")
    rules: list[DeviceRule] = []
    at = len(PROLOGUE)
    end = len(program) - (len(NO) if program.endswith(NO) else 0)
    while at < end:
        rule = _read_block(program, at)
        rules.append(rule)
        at += len(_block(rule))
    return rules[::-1]


def _read_block(program: bytes, start: int) -> DeviceRule:
    """Return the rule whose block begins at byte `start`. Raises ValueError."""
    tests: dict[int, int] = {}
    at = start
    while at < len(program):
        code, register, _, value = struct.unpack_from("<BBhI", program, at)
        if code != JNE_K or register == 2:
            break
        tests[register] = value
        at += 8
    kind = {number: kind for kind, number in KINDS.items()}.get(tests.get(KIND, 0), "a")
    for allow, mask in _verdicts(program, at):
        access = ruleset.letters(mask)
        rule = DeviceRule(allow, kind, tests.get(MAJOR), tests.get(MINOR), access)
        if access and program.startswith(_block(rule), start):
            return rule
    raise ValueError(f"not a device program of minirun, from instruction {start // 8} on")


def _verdicts(program: bytes, at: int) -> list[tuple[bool, int]]:
    """Return what the instructions at byte `at` may mean: (allow, the mask of its access)."""
    if at + 16 > len(program):
        return []
    code, _, _, value, _, _, _, following = struct.unpack_from("<BBhIBBhI", program, at)
    found = {MOV_K: (value == 1, 7), AND_K: (True, ~value), MOV_X: (False, following)}
    return [found[code]] if code in found else []
