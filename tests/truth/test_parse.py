"""Reading strace's output."""

import pytest

from minirun.faces.teach import strace
from minirun.faces.teach.strace import fields, flags, number, split, string, strings

TEXT = """\
42 1700000000.000001 mkdir("/a, b", 0700) = -1 EEXIST (File exists)
42 1700000000.000002 clone3({flags=CLONE_PIDFD, exit_signal=SIGCHLD} <unfinished ...>
43 1700000000.000003 write(1, "a\\nb\\"c", 5) = 5
42 1700000000.000004 <... clone3 resumed> => {pidfd=[7]}, 88) = 2 /* 43 in strace's PID NS */
43 1700000000.000005 wait4(-1, 0x7ff, 0, NULL) = ? ERESTARTSYS (To be restarted)
43 1700000000.000006 exit_group(3) = ?
43 1700000000.000007 +++ exited with 3 +++
44 1700000000.000008 pause( <unfinished ...>
44 1700000000.000009 +++ killed by SIGKILL +++
45 1700000000.000009 +++ killed by SIGSEGV (core dumped) +++
42 17000"""


def test_calls() -> None:
    mkdir, write, clone, end = strace.parse(TEXT)
    assert (mkdir.name, mkdir.args, mkdir.ret, mkdir.errno) == (
        "mkdir", ('"/a, b"', "0700"), -1, "EEXIST",
    )  # fmt: skip
    assert string(write.args[1]) == 'a\nb"c'
    assert (clone.pid, clone.ret, clone.child, clone.time) == (42, 2, 43, 1700000000.000004)
    assert (end.name, end.ret) == ("exit_group", None)
    assert str(mkdir) == 'mkdir("/a, b", 0700) = -1 EEXIST'
    assert str(end) == "exit_group(3) = ?"
    assert str(mkdir._replace(args=("x" * 500,))).endswith("x…) = -1 EEXIST")


def test_endings() -> None:
    assert strace.endings(TEXT) == {43: 3, 44: 128 + 9, 45: 128 + 11}


def test_words() -> None:
    assert split('1, {a=[1, 2], b="x, y"}, "\\", "') == ["1", '{a=[1, 2], b="x, y"}', '"\\", "']
    assert fields("{a=1 => 2, b={c=3}}") == {"a": "1", "b": "{c=3}"}
    assert strings('["a", "b c"]') == ["a", "b c"]
    assert [number(word) for word in ("15", "0x1f", "0600", "AT_FDCWD", "-1")] == [
        15, 31, 384, -100, -1,
    ]  # fmt: skip
    assert flags("A|B /* 0x3 */") == {"A", "B"}
    assert flags("0") == frozenset()
    assert string("NULL") is None
    assert string('"\\303\\251\\377"') == "é\udcff"


def test_a_cut_string_is_no_string() -> None:
    with pytest.raises(ValueError, match="not a whole string"):
        string('"abc"...')


def test_names_of_i686() -> None:
    """libc there makes other calls for the same; the reader has one name for each."""
    text = '7  1.5 setgroups32(1, [5])        = 0\n7  1.6 recv(4, "x", 10, 0) = 1\n'
    assert [call.name for call in strace.parse(text)] == ["setgroups", "recvfrom"]
    assert {*strace.names(("setgroups", "mount"))} == {"setgroups", "setgroups32", "mount"}
