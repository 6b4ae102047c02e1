"""What minirun:names makes of a packet: whatever it is, one answer that can be read, or none."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("dns", reason="apt-get install python3-dnspython, then make setup")
import dns.flags
import dns.message
import dns.name
import dns.rcode

from minirun.net import names, nameserver

ROWS = [
    ["shop", "web", ["web", "till", "Upper"], ["10.89.0.2", "fd00::2"]],
    ["shop", "db", ["db", "till"], ["10.89.0.3", ""]],
    ["other", "far", ["far", "web", "a.b"], ["10.90.0.2", ""]],
]
KNOWN = nameserver.KnownNames(ROWS, leads_out=True)


def answered(data: bytes) -> dns.message.Message | None:
    """Return the answer to a packet, as a client reads it; "" where a server would be asked."""
    try:
        query, rcode = nameserver.query_of(data)
    except nameserver.NotAQuery:
        return None
    found = nameserver.answer(query, rcode) if rcode else nameserver.own_answer(KNOWN, query, 512)
    found = found or nameserver.answer(query, dns.rcode.SERVFAIL)
    answer = dns.message.from_wire(found)
    assert answer.flags & dns.flags.QR and answer.id == struct.unpack_from("!H", data)[0]
    assert len(found) <= 512 or rcode
    return answer


def asked(name: str, kind: str = "A") -> list[str]:
    answer = answered(dns.message.make_query(name, kind).to_wire())
    assert answer is not None
    return sorted(str(each) for rows in answer.answer for each in rows)


HEADER = struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0)
LABEL = st.binary(max_size=70).map(lambda text: bytes([len(text) & 0xFF]) + text)
POINTER = st.integers(0, 0x3FFF).map(lambda at: struct.pack("!H", 0xC000 | at))
PACKETS = st.one_of(
    st.binary(max_size=600),
    st.builds(
        lambda flags, counts, parts: struct.pack("!6H", 7, flags, *counts) + b"".join(parts),
        st.integers(0, 0x7FFF), st.lists(st.integers(0, 3), min_size=4, max_size=4),
        st.lists(st.one_of(LABEL, POINTER, st.binary(max_size=20)), max_size=20),
    ),
    st.builds(
        lambda parts, end: HEADER + b"".join(parts) + b"\0" + end,
        st.lists(st.one_of(LABEL, POINTER), max_size=9), st.sampled_from(
            [b"\0\1\0\1", b"\0\x1c\0\1", b"\0\x0c\0\1", b"\0\xfb\0\1", b"\0\1\0\3"]
        ),
    ),
)  # fmt: skip


@given(PACKETS)
def test_any_packet(data: bytes) -> None:
    """It ends, with an answer of the same number, or with none to what is no question."""
    assert (answered(data) is None) == (len(data) < 12 or bool(data[2] & 0x80))


@given(st.binary(max_size=400), st.integers(0, 400))
def test_a_query_with_bytes_changed(noise: bytes, at: int) -> None:
    """The begin of a right one, and then anything."""
    query = dns.message.make_query("till.shop", "A", use_edns=0, payload=4096).to_wire()
    answered(query[:at] + noise)


@given(st.binary(max_size=400))
def test_any_answer_of_a_server(data: bytes) -> None:
    """It counts only with the query's number and question."""
    query = dns.message.make_query("example.test", "A")
    right = dns.message.make_response(query).to_wire()
    assert nameserver.is_answer(query, right)
    for wrong in (data, right[:12] + data, b"\0\0" + right[2:], query.to_wire()):
        if wrong != right and wrong[:2] != right[:2]:
            assert not nameserver.is_answer(query, wrong)
    other = dns.message.make_response(dns.message.make_query("evil.test", "A"))
    other.id = query.id
    assert not nameserver.is_answer(query, other.to_wire())


def test_what_is_refused() -> None:
    """A loop of pointers, two questions, another operation, class or version, a whole zone."""
    loop = HEADER + b"\xc0\x0c\0\1\0\1"
    far = HEADER + b"\xc0\xff\0\1\0\1"
    query = dns.message.make_query("web", "A").to_wire()
    edns = dns.message.make_query("web", "A", use_edns=0).to_wire()
    for data, rcode in (
        (loop, "FORMERR"),
        (far, "FORMERR"),
        (HEADER, "FORMERR"),
        (query + b"x", "FORMERR"),
        (query + b"x" * 9999, "FORMERR"),
        (query[:4] + b"\0\2" + query[6:], "FORMERR"),
        (query[:6] + b"\xff\xff" + query[8:], "FORMERR"),
        (query[:2] + b"\x28" + query[3:], "NOTIMP"),
        (dns.message.make_query("version.bind", "TXT", "CH").to_wire(), "REFUSED"),
        (dns.message.make_query("web", "AXFR").to_wire(), "REFUSED"),
        (edns[:-5] + b"\1" + edns[-4:], "BADVERS"),
    ):
        answer = answered(data)
        assert answer and dns.rcode.to_text(answer.rcode()) == rcode, data[:40]
        assert len(answer.to_wire()) <= max(len(data), 12) + 11, "an answer is no larger: no gain"


def test_names() -> None:
    """Of the first network that has it; with the network's name; in whatever case."""
    assert asked("web") == asked("WEB.Shop") == ["10.89.0.2"]
    assert asked("web.other") == ["10.90.0.2"]
    assert asked("till") == ["10.89.0.2", "10.89.0.3"] and asked("upper") == ["10.89.0.2"]
    assert asked("web", "AAAA") == ["fd00::2"] and asked("db", "AAAA") == []
    assert asked("a.b") == asked("a.b.other") == ["10.90.0.2"]
    assert asked("2.0.89.10.in-addr.arpa", "PTR") == ["web.shop."]
    reverse = dns.reversename.from_address("fd00::2").to_text()
    assert asked(reverse, "PTR") == ["web.shop."]
    assert asked("9.0.89.10.in-addr.arpa", "PTR") == asked("x.in-addr.arpa", "PTR") == []
    strange = dns.name.Name([b"we\0b\xff", b"\x00" * 63, b""])
    assert asked(strange.to_text()) == [] and asked(".") == []


def test_all_is_imported_before_its_rights_go(tmp_path: Path) -> None:
    """A clone may lie where only root can read: later nothing more can be loaded."""
    script = """
import sys
sys.path[:0] = sys.argv[2:]
from minirun.net import nameserver
import asyncio, dns.message, os
answers = nameserver.NameAnswers(os.open(sys.argv[1], os.O_RDONLY), [])
before = set(sys.modules)
for name, kind in (("web", "A"), ("web", "AAAA"), ("web", "HTTPS"), ("no", "A"),
                   ("2.0.89.10.in-addr.arpa", "PTR")):
    query = dns.message.make_query(name, kind, use_edns=0, payload=4096)
    assert asyncio.run(answers.to(query.to_wire(), by_tcp=False))
asyncio.run(answers.to(b"\\0" * 40, by_tcp=True))
print(sorted(set(sys.modules) - before))
"""
    (tmp_path / names.KNOWN).write_text(json.dumps({"rows": ROWS, "leads_out": False}))
    argv = [sys.executable, "-c", script, str(tmp_path), *sys.path]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"rows": 1}', '{"rows": [[1]], "leads_out": 1}'])
def test_a_damaged_file(tmp_path: Path, text: str) -> None:
    (tmp_path / names.KNOWN).write_text(text)
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        answers = nameserver.NameAnswers(fd, [])
        query = dns.message.make_query("web", "A").to_wire()
        found = asyncio.run(answers.to(query, by_tcp=False))
        assert dns.message.from_wire(found).rcode() == dns.rcode.SERVFAIL
    finally:
        os.close(fd)
