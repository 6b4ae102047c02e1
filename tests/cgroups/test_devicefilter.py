"""The assembler and its two readers; what programs do is in test_device_rules.py."""

import pytest

from minirun.cgroups import devicefilter, ruleset
from minirun.cgroups.rules import DeviceRule


def test_one_rule_reads_as_the_lesson_says():
    program = devicefilter.assemble([ruleset.parse("c 195:0 rw")])
    assert devicefilter.disassemble(program) == [
        "   0: r2 = *(u32 *)(r1 + 0)        ; what is asked for",
        "   1: w3 = w2                      ; a copy for the kind of node",
        "   2: w3 &= 0xffff                 ; 1 is b, 2 is c",
        "   3: w2 >>= 16                    ; w2: the access that is wanted",
        "   4: r4 = *(u32 *)(r1 + 4)        ; the major number",
        "   5: r5 = *(u32 *)(r1 + 8)        ; the minor number",
        "   6: if w3 != 2 goto 13           ; another kind than c: the next rule",
        "   7: if w4 != 195 goto 13         ; another major number than 195: the next rule",
        "   8: if w5 != 0 goto 13           ; another minor number than 0: the next rule",
        "   9: w2 &= 0xfffffff9             ; rw is granted by this rule",
        "  10: if w2 != 0 goto 13           ; more is wanted: on",
        "  11: w0 = 1                       ; permitted",
        "  12: exit                         ; the answer",
        "  13: w0 = 0                       ; denied (EPERM)",
        "  14: exit                         ; the answer",
    ]


def test_the_encoding_is_the_one_of_bpf_h():
    """struct bpf_insn: opcode, source and destination in one byte, offset, constant."""
    assert devicefilter.insn(0x61, 2, 1, 4).hex(" ") == "61 12 04 00 00 00 00 00"
    assert devicefilter.insn(0x56, 4, 0, 5, 195).hex(" ") == "56 04 05 00 c3 00 00 00"
    assert devicefilter.insn(0x54, 2, imm=~6).hex(" ") == "54 02 00 00 f9 ff ff ff"


def test_no_rules_and_all_rules_are_the_shortest_programs():
    assert devicefilter.assemble([]) == devicefilter.PROLOGUE + devicefilter.NO
    assert devicefilter.assemble([ruleset.ALL]) == devicefilter.PROLOGUE + devicefilter.YES
    assert devicefilter.decode(devicefilter.assemble([ruleset.ALL])) == [ruleset.ALL]


def test_a_number_beyond_any_device_is_packed_and_never_matches():
    program = devicefilter.assemble([DeviceRule(True, "c", 0xFFFFFFFF, 0xFFFFFFFE, "r")])
    assert devicefilter.decode(program)[0].major == 0xFFFFFFFF


GOOD = devicefilter.assemble([ruleset.parse("c 1:3 rw")])
MANGLED = [
    b"",
    devicefilter.YES,
    GOOD[8:],
    GOOD[:-8],
    GOOD[:-3],
    GOOD.replace(devicefilter.YES, devicefilter.NO),
    devicefilter.PROLOGUE + devicefilter.insn(0x56, 9, 0, 2, 1) + devicefilter.NO,
    devicefilter.PROLOGUE + devicefilter.insn(0x56, 3, 0, 9, 2) + devicefilter.YES,
]


@pytest.mark.parametrize("program", MANGLED)
def test_other_programs_are_not_taken_for_ours(program):
    with pytest.raises(ValueError, match="not a device program of minirun"):
        devicefilter.decode(program)


def test_other_instructions_cannot_be_explained():
    with pytest.raises(ValueError, match="opcode 0x85"):
        devicefilter.disassemble(devicefilter.insn(0x85))
