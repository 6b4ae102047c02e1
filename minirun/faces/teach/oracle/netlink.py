"""Requests of rtnetlink as strace sees them, and the kernel's answers.

    sendto(8, [{nlmsg_len=32, nlmsg_type=RTM_NEWLINK, …, nlmsg_seq=9, …}, {ifi_flags=IFF_UP, …}], …
    sendto(8, [{nlmsg_len=32, nlmsg_type=0x10, …, nlmsg_seq=9, …}, "\\x00…"], 32, …) = 32
    recvfrom(8, [{…, nlmsg_type=NLMSG_ERROR, …, nlmsg_seq=9, …}, {error=-EEXIST, …}], …) = 36

strace reads a message if it can look up the socket's family: so those in its own network namespace,
if the kernel has netlink_diag. Of the others it has the bytes, which pyroute2's messages read here.
Both become the words of an event; if strace says an index by the link's name, the event has that
name, too.
"""

from __future__ import annotations

import re
import struct
from typing import Any

from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from minirun.faces.teach.strace import Call, number, string

TYPES = {
    0x10: "RTM_NEWLINK", 0x11: "RTM_DELLINK", 0x13: "RTM_SETLINK", 0x14: "RTM_NEWADDR",
    0x15: "RTM_DELADDR", 0x18: "RTM_NEWROUTE", 0x19: "RTM_DELROUTE",
}  # fmt: skip
"""The requests that change something: linux/rtnetlink.h."""
_MESSAGES = {"LINK": ifinfmsg, "ADDR": ifaddrmsg, "ROUTE": rtmsg}
_SENT = re.compile(r"\[\{nlmsg_len=\d+, nlmsg_type=(\w+).*?nlmsg_seq=(\d+).*?\}, (.*)\]", re.DOTALL)
_ATTRIBUTE = re.compile(
    r'nla_type=(\w+)\}, (?:inet_addr\(|inet_pton\(AF_INET6, )?("[^"]*"|[\w:.]+)', re.DOTALL
)
_FIELD = re.compile(r'(?:ifi|ifa|rtm)_(\w+)=(if_nametoindex\("[^"]*"\)|[\w|]+)')
_ANSWER = re.compile(r"nlmsg_type=NLMSG_ERROR.*?nlmsg_seq=(\d+).*?error=(-?\w+)", re.DOTALL)
_NAMED = {name: name for name in TYPES.values()}
_LINK = {
    "ifname": "IFLA_IFNAME", "mtu": "IFLA_MTU", "address": "IFLA_ADDRESS", "master": "IFLA_MASTER",
    "ifalias": "IFLA_IFALIAS", "net_ns_pid": "IFLA_NET_NS_PID",
}  # fmt: skip
_PORT = {"mode": ("IFLA_BRPORT_MODE", 4), "isolated": ("IFLA_BRPORT_ISOLATED", 33)}
"""Of a bridge's port, with its number: linux/if_link.h."""
_IFF_UP = 0x1


def request(call: Call) -> Call | None:
    """Return a call of sendto that changes links, addresses or routes, by the request's name.

    Its arguments are the sequence number and the bytes after the header. None for all others.
    """
    found = _SENT.match(call.args[1]) if call.name == "sendto" else None
    if not found:
        return None
    name = _NAMED.get(found[1]) or TYPES.get(number(found[1]) if found[1][:2] == "0x" else 0)
    return call._replace(name=name, args=(found[2], found[3])) if name else None


def answer(call: Call) -> tuple[str, str]:
    """Return sequence number and errno of the kernel's answer, "" for success; else ("", "")."""
    found = _ANSWER.search(call.args[1]) if call.name == "recvfrom" else None
    return (found[1], "" if found[2] == "0" else found[2][1:]) if found else ("", "")


def words(name: str, args: tuple[str, ...]) -> dict[str, Any]:
    """Return what a request asks, as the event has it. Raises ValueError, LookupError."""
    kind = name.removeprefix("RTM_")[3:]
    if args[1][0] != '"':
        return _of_text(kind, args[1])
    message = _read(_MESSAGES[kind], _bytes(args[1]))
    return {"LINK": _link, "ADDR": _address, "ROUTE": _route}[kind](message)


def _read(kind: Any, body: bytes) -> Any:
    """Return a message of pyroute2's whose bytes after the header, netlink(7), are these."""
    message = kind(struct.pack("=IHHII", 16 + len(body), 0, 0, 0, 0) + body)
    message.decode()
    return message


def _bytes(text: str) -> bytes:
    return (string(text) or "").encode(errors="surrogateescape")


def _of_text(kind: str, text: str) -> dict[str, Any]:
    """Return the same of a message that strace has read."""
    fields = dict(_FIELD.findall(text))
    attributes = {name: value.strip('"') for name, value in _ATTRIBUTE.findall(text)}
    found: dict[str, Any] = {}
    link = re.match(r'if_nametoindex\("(.*)"\)', fields.get("index", ""))
    if link:
        found["link"] = link[1]
    if kind == "ADDR":
        length = int(fields["prefixlen"])
        return found | {"address": attributes["IFA_ADDRESS"], "prefixlen": length}
    if kind == "ROUTE":
        everywhere = "::" if fields["family"] == "AF_INET6" else "0.0.0.0"
        to = f"{attributes.get('RTA_DST', everywhere)}/{fields['dst_len']}"
        return found | {"dst": to, "gateway": attributes["RTA_GATEWAY"]}
    for key, name in _LINK.items():
        if name in attributes:
            value = attributes[name]
            found[key] = int(value) if key in ("mtu", "master", "net_ns_pid") else value
    if "IFF_UP" in fields["flags"]:
        found["state"] = "up"
    if "IFLA_INFO_SLAVE_DATA" in attributes:  # struct nlattr: length, type, value
        data = _bytes(f'"{attributes["IFLA_INFO_SLAVE_DATA"]}"')
        found |= {key: data[4] for key, (_, number_of) in _PORT.items() if data[2] == number_of}
    elif "IFLA_INFO_KIND" in attributes:
        found["kind"] = attributes["IFLA_INFO_KIND"]
    if found.get("kind") == "veth":  # struct nlattr, then a message of its own: veth(4)
        found["peer"] = _link(_read(ifinfmsg, _bytes(f'"{attributes["IFLA_INFO_DATA"]}"')[4:]))
    return found


def _link(message: Any) -> dict[str, Any]:
    found = {key: message.get_attr(name) for key, name in _LINK.items()}
    found["index"] = message["index"] or None
    found["state"] = "up" if message["flags"] & _IFF_UP else None
    info = message.get_attr("IFLA_LINKINFO")
    if info:
        kind = info.get_attr("IFLA_INFO_KIND")
        if kind == "bridge_slave":
            data = info.get_attr("IFLA_INFO_SLAVE_DATA")
            found |= {key: data.get_attr(name) for key, (name, _) in _PORT.items()}
        else:
            found["kind"] = kind
        if kind == "veth":
            found["peer"] = _link(info.get_attr("IFLA_INFO_DATA").get_attr("VETH_INFO_PEER"))
    return {key: value for key, value in found.items() if value is not None}


def _address(message: Any) -> dict[str, Any]:
    return {
        "index": message["index"], "address": message.get_attr("IFA_ADDRESS"),
        "prefixlen": message["prefixlen"],
    }  # fmt: skip


def _route(message: Any) -> dict[str, Any]:
    length = message["dst_len"]
    everywhere = "::" if message["family"] == 10 else "0.0.0.0"
    to = message.get_attr("RTA_DST") or everywhere
    return {"dst": f"{to}/{length}", "gateway": message.get_attr("RTA_GATEWAY")}
