"""The log of networks against strace: each request of rtnetlink, with its words and its answer."""

from __future__ import annotations

import pytest

from minirun.faces.show.log.event import event_of
from minirun.faces.teach import strace
from minirun.faces.teach.oracle import calls, netlink
from net.hosts import Host

RUNS = (
    ("busybox", "true"),
    ("-p", "8080:80", "busybox", "true"),
    ("-p", "127.0.0.1:8080:80/udp", "-p", "9000-9003:90", "busybox", "true"),
    ("--network", "shop", "--network-alias", "till", "busybox", "true"),
    ("--network", "shop", "--ip", "10.89.0.9", "--mac-address", "02:00:00:00:00:09", "busybox",
     "true"),
    ("--network", "six", "-p", "8080:80", "busybox", "true"),
    ("--network", "shop", "--network", "six", "busybox", "true"),
    ("--network", "vault", "busybox", "true"),
    ("--network", "apart", "busybox", "true"),
    ("--network", "small", "--gpus", "0", "busybox", "true"),
    ("--network", "none", "busybox", "true"),
)  # fmt: skip


def test_runs(network_host: Host) -> None:
    """Nothing is untrue, and nothing is missing."""
    host = network_host
    for flags in (
        ("--subnet=10.89.0.0/24", "shop"),
        ("--ipv6", "six"),
        ("--internal", "vault"),
        ("--opt=mtu=1400", "small"),
        ("--opt=com.docker.network.bridge.enable_icc=false", "apart"),
    ):
        host.run("network", "create", *flags)
    host.run("run", "--rm", "-q", "--gpus", "0", "busybox", "true")  # makes the simulated driver
    for words in RUNS:
        done = host("teach", "oracle", "run", "--rm", "-q", *words, timeout=120)
        assert done.returncode == 0, (words, done.stdout[-2000:])
        assert done.stdout.rstrip().endswith("0 untrue, 0 missing"), words
        if words[0] != "--network" or words[1] != "none":
            assert "RTM_NEWROUTE" in done.stdout or words[1] == "vault", words


READ = (
    '1 1700000000.1 sendto(8, [{nlmsg_len=32, nlmsg_type=RTM_NEWLINK, nlmsg_flags=5, '
    'nlmsg_seq=9, nlmsg_pid=1}, {ifi_family=AF_UNSPEC, ifi_type=ARPHRD_NETROM, '
    'ifi_index=if_nametoindex("minirun0"), ifi_flags=IFF_UP, '
    'ifi_change=0x1}], 32, 0, NULL, 0) = 32\n'
)  # fmt: skip
BYTES = (
    "1 1700000000.1 sendto(44, [{nlmsg_len=40, nlmsg_type=0x14 /* NLMSG_??? */, nlmsg_flags=0x5, "
    'nlmsg_seq=9, nlmsg_pid=1}, "\\x02\\x10\\x00\\x00\\x02\\x00\\x00\\x00\\x08\\x00\\x01\\x00'
    '\\x0a\\x58\\x00\\x05\\x08\\x00\\x02\\x00\\x0a\\x58\\x00\\x05"], 40, 0, NULL, 0) = 40\n'
)
PORT = (
    "1 1700000000.1 sendto(8, [{nlmsg_len=68, nlmsg_type=0x10 /* NLMSG_??? */, nlmsg_flags=0x5, "
    'nlmsg_seq=9, nlmsg_pid=1}, "\\x00\\x00\\x00\\x00\\x09\\x00\\x00\\x00\\x00\\x00\\x00\\x00'
    "\\x00\\x00\\x00\\x00\\x24\\x00\\x12\\x00\\x11\\x00\\x01\\x00\\x62\\x72\\x69\\x64"
    "\\x67\\x65\\x5f\\x73\\x6c\\x61\\x76\\x65\\x00\\x00\\x00\\x00\\x0c\\x00\\x05\\x00"
    '\\x05\\x00\\x04\\x00\\x01\\x00\\x00\\x00"], 68, 0, NULL, 0) = 68\n'
)
"""As strace writes it of a kernel without netlink_diag."""
ALONE = PORT.replace("x05\\x00\\x04\\x00\\x01", "x05\\x00\\x21\\x00\\x01")
ANSWER = (
    "1 1700000000.2 recvfrom(8, [{nlmsg_len=36, nlmsg_type=NLMSG_ERROR, nlmsg_flags=NLM_F_CAPPED, "
    "nlmsg_seq=9, nlmsg_pid=1}, {error=-EEXIST, msg={nlmsg_len=32, nlmsg_type=0x10}}], 9, 0) = 36\n"
)


@pytest.mark.parametrize(
    ("text", "name", "args"),
    [
        (READ, "RTM_NEWLINK", {"link": "minirun0", "index": 3, "state": "up"}),
        (BYTES, "RTM_NEWADDR", {"index": 2, "address": "10.88.0.5", "prefixlen": 16}),
        (PORT, "RTM_NEWLINK", {"index": 9, "mode": 1}),
        (ALONE, "RTM_NEWLINK", {"index": 9, "isolated": 1}),
    ],
    ids=["read by strace", "in bytes", "a port in bytes", "a port apart in bytes"],
)
def test_an_event_that_says_another_thing(text: str, name: str, args: dict[str, object]) -> None:
    """Each word counts, and so does the errno."""
    sent, answer = strace.parse(text + ANSWER)
    made = netlink.request(sent)
    assert made
    assert netlink.answer(answer) == ("9", "EEXIST")
    made = made._replace(ret=-1, errno="EEXIST")
    row = {"v": 1, "kind": "netlink", "name": name, "args": args, "ret": -1, "errno": "EEXIST"}
    assert calls.differences(event_of(row), made) == []
    assert calls.differences(event_of(row | {"ret": 0, "errno": None}), made) != []
    assert calls.differences(event_of(row | {"name": "RTM_NEWROUTE"}), made) != []
    for key in args.keys() - ({"index"} if "link" in args else set()):
        other = row | {"args": args | {key: "another"}}
        assert calls.differences(event_of(other), made) != [], key
