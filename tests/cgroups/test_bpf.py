"""bpf(2) against the kernel: loading, the verifier's words, attaching, asking back."""

import errno
import json
import os
import uuid

import pytest

from minirun.cgroups import bpf, hierarchies
from minirun.cgroups.devicefilter import EXIT, NO, YES, insn
from minirun.core import events


@pytest.fixture
def cgroup():
    if os.geteuid() != 0:
        pytest.skip("bpf needs root")
    mount = next((h.path for h in hierarchies.mounted() if h.version == 2), None)
    if not mount:
        pytest.skip("no cgroup2 is mounted here")
    path = f"{mount}/minirun-bpf-{uuid.uuid4().hex}"
    os.mkdir(path)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)
    os.rmdir(path)


@pytest.fixture
def load():
    opened = []

    def load_(instructions):
        opened.append(bpf.load(bpf.DEVICE, instructions, "test"))
        return opened[-1]

    yield load_
    for fd in opened:
        os.close(fd)


def instructions_of(program_id):
    fd = bpf.open_program(program_id)
    try:
        return bpf.program_instructions(fd)
    finally:
        os.close(fd)


def test_attach_and_replace(cgroup, load):
    assert bpf.attached(cgroup) == []
    yes, no = load(YES), load(NO)
    bpf.attach(bpf.DEVICE, cgroup, yes)
    (first,) = bpf.attached(cgroup)
    assert instructions_of(first) == YES
    bpf.attach(bpf.DEVICE, cgroup, no, replacing=yes)
    (second,) = bpf.attached(cgroup)
    assert instructions_of(second) == NO
    assert first != second


def test_several_programs_are_told_of(cgroup, load):
    for _ in range(3):
        bpf.attach(bpf.DEVICE, cgroup, load(YES))
    assert len(bpf.attached(cgroup)) == 3


def test_a_program_longer_than_the_first_buffer_comes_back_whole(load):
    program = insn(0xB4, 0, imm=1) * 3000 + insn(EXIT)
    assert bpf.program_instructions(load(program)) == program


@pytest.mark.parametrize(
    ("program", "number", "words"),
    [
        (YES[:-8], errno.EINVAL, "last insn is not an exit or jmp"),
        (insn(0xBF, 0, 7) + insn(EXIT), errno.EACCES, "R7 !read_ok"),
        (insn(0xB4, 0, imm=2) + insn(EXIT), errno.EINVAL, "should have been in"),
    ],
)
def test_what_the_verifier_says_is_in_the_error(load, program, number, words):
    with pytest.raises(OSError, match=words) as caught:
        load(program)
    assert caught.value.errno == number
    assert "\n" not in str(caught.value.strerror)


def test_replacing_what_is_not_attached_is_an_error(cgroup, load):
    with pytest.raises(FileNotFoundError):
        bpf.attach(bpf.DEVICE, cgroup, load(YES), replacing=load(NO))


def test_a_program_that_is_gone_is_an_error():
    with pytest.raises(FileNotFoundError):
        bpf.open_program(0xFFFFFFF)


def test_every_call_is_in_the_log(cgroup, load, tmp_path):
    path = tmp_path / "events.jsonl"
    events.open_log(str(path), "test")
    try:
        bpf.attach(bpf.DEVICE, cgroup, load(YES))
        instructions_of(bpf.attached(cgroup)[0])
    finally:
        events.close_log()
    told = [json.loads(line) for line in path.read_text().splitlines()]
    assert {event["name"] for event in told} == {"bpf"}
    assert [event["args"]["cmd"] for event in told] == [
        "BPF_PROG_LOAD", "BPF_PROG_ATTACH", "BPF_PROG_QUERY",
        "BPF_PROG_GET_FD_BY_ID", "BPF_OBJ_GET_INFO_BY_FD",
    ]  # fmt: skip
    assert told[0]["args"] == {
        "cmd": "BPF_PROG_LOAD", "prog_type": "BPF_PROG_TYPE_CGROUP_DEVICE",
        "insn_cnt": 2, "prog_name": "test",
    }  # fmt: skip
