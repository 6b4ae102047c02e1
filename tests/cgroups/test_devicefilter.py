"""The assembler and its reader; what programs do is in test_device_rules.py."""

import pytest

from minirun.cgroups import devicefilter, ruleset
from minirun.cgroups.devicefilter import insn
from minirun.cgroups.rules import DeviceRule


def test_one_rule_is_the_program_of_the_lesson():
    assert devicefilter.assemble([ruleset.parse("c 195:0 rw")]) == b"".join(
        (
            devicefilter.PROLOGUE,
            insn(0x56, 3, 0, 6, 2),  # another kind: to the end
            insn(0x56, 4, 0, 5, 195),  # another major number
            insn(0x56, 5, 0, 4, 0),  # another minor number
            insn(0x54, 2, imm=~6),  # read and write are granted
            insn(0x56, 2, 0, 2, 0),  # something else is wanted as well
            devicefilter.YES,
            devicefilter.NO,
        )
    )


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
