"""`network inspect --svg` of two networks, three containers, a port and an internal network.

What it says is compared with `ip -j` and `nft -j`, and with what becomes of real packets; where it
says it, with the frames of the namespaces.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from faces.show.browser import Browser
from net.hosts import HOST, OUTSIDE, Host, host
from required import installed, skip

SVG = "{http://www.w3.org/2000/svg}"
CONTAINERS = {"web": ("shop",), "api": ("shop", "vault"), "db": ("vault",)}
SERVE = "while echo hello | nc -l -p 80; do :; done"
GET = "nc -w 2"
OUTER_SERVE = (
    "import socket; s = socket.create_server((str(), 80)); print(1, flush=True)\n"
    "while True: c, _ = s.accept(); c.sendall(b'hello'); c.close()"
)
OUTER_GET = f"busybox {GET}"


class Frame(NamedTuple):
    """A rectangle of the picture."""

    x: float
    y: float
    width: float
    height: float
    broken: bool

    def has(self, x: float, y: float) -> bool:
        return self.x <= x <= self.x + self.width and self.y <= y <= self.y + self.height


class Picture:
    """The frames, words and lines of the SVG document."""

    def __init__(self, text: str) -> None:
        root = ElementTree.fromstring(text)
        self.frames = [
            Frame(*(float(one.attrib[key]) for key in ("x", "y", "width", "height")),
                  "stroke-dasharray" in one.attrib) for one in root.iter(f"{SVG}rect")
        ]  # fmt: skip
        self.words = [
            (float(one.attrib["x"]), float(one.attrib["y"]), one.text or "")
            for one in root.iter(f"{SVG}text")
        ]
        self.said = " ".join(text for _, _, text in self.words)
        self.lines = [one.attrib["d"] for one in root.iter(f"{SVG}path")]

    def at(self, words: str) -> tuple[float, float]:
        """Return the place of words that stand in the picture once."""
        (found,) = [(x, y) for x, y, text in self.words if text == words]
        return found

    def within(self, words: str) -> Frame:
        """Return the smallest frame around words."""
        x, y = self.at(words)
        return min((one for one in self.frames if one.has(x, y)), key=lambda one: one.width)

    @property
    def host(self) -> Frame:
        """The frame of the host, which is the widest."""
        return max(self.frames, key=lambda one: one.width)


@pytest.fixture(scope="module")
def town(command: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    for program in ("ip", "nft", "busybox"):
        if not shutil.which(program):
            skip(f"{program} is not installed")
    with host(command, tmp_path_factory.mktemp("town")) as made:
        made.run("network", "create", "--subnet", "10.89.0.0/24", "shop")
        made.run("network", "create", "--internal", "--subnet", "10.90.0.0/24", "vault")
        for name, networks in CONTAINERS.items():
            flags = [word for network in networks for word in ("--network", network)]
            port = ("-p", "8080:80") if name == "web" else ()
            made.run("run", "-d", "-q", "--name", name, *flags, *port, "busybox", "sh", "-c", SERVE)
        yield made
        made.clean()


def drawn(town: Host) -> str:
    done = town("network", "inspect", "--svg")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def picture(town: Host) -> Picture:
    return Picture(drawn(town))


def links(town: Host, name: str = "") -> list[dict[str, object]]:
    """Return the links of the host, or of a container, by ip(8)."""
    pid = json.loads(town.run("state", name))["pid"] if name else 0
    enter = f"nsenter -t {pid} -n " if name else ""
    found: list[dict[str, object]] = json.loads(town.shell(f"{enter}ip -j address show"))
    return found


def test_each_namespace_is_a_frame_with_its_own_ends(town: Host, picture: Picture) -> None:
    """A frame for the host, one for each container, once; each veth pair has an end in both."""
    assert picture.said.count("host, a network namespace") == 1
    assert picture.host.has(*picture.at("host, a network namespace: it forwards packets"))
    outer = {row["ifindex"]: row for row in links(town)}
    for name, networks in CONTAINERS.items():
        frame = picture.within(f"container {name}")
        assert frame.y > picture.host.y + picture.host.height
        inner = [row for row in links(town, name) if row["ifname"] != "lo"]
        assert len(inner) == len(networks)
        for row in inner:
            other = outer[row["link_index"]]
            label = f"{other['ifname']} ({other['ifindex']})"
            x, y = picture.at(label)
            assert picture.host.has(x, y) and not frame.has(x, y)
            ends = [one for one in picture.words if one[2] == f"{row['ifname']} ({row['ifindex']})"]
            assert any(frame.has(*one[:2]) and abs(one[0] - x) < 10 for one in ends)
            for address in row["addr_info"]:  # type: ignore[attr-defined]
                if address["scope"] == "global":
                    said = f"{address['local']}/{address['prefixlen']}"
                    assert frame == picture.within(said)
            assert frame == picture.within(str(row["address"]))
            bridge = next(one for one in outer.values() if one["ifname"] == other["master"])
            assert picture.at(f"bridge {bridge['ifname']} ({bridge['ifindex']})")
    boxes = 1 + 1 + 2 + len(CONTAINERS)
    assert len(picture.frames) == boxes, "the host, its way out, two bridges, three containers"
    assert not any(one.broken for one in picture.frames)
    out = next(row for row in outer.values() if row["ifname"] == "e0")
    assert any(text.startswith(f"e0 ({out['ifindex']}): {HOST}/24") for _, _, text in picture.words)


def test_each_name_stands_there_once(town: Host, picture: Picture) -> None:
    """That of api on both of its networks: it has an address on each."""
    for name, networks in CONTAINERS.items():
        said = re.compile(rf"name \S+ {name} [0-9a-f]{{12}}")
        rows = [text for _, _, text in picture.words if said.fullmatch(text)]
        assert len(rows) == len(networks)
    assert "hosts" not in picture.said.replace("other hosts", "")


def test_a_port_is_an_arrow_from_outside(town: Host, picture: Picture) -> None:
    """It begins above the host's frame, and ends at the bridge; the kernel leads a packet so."""
    x, y = picture.at("tcp 8080")
    assert y < picture.host.y
    ways = [re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)", line) for line in picture.lines]
    (way,) = [found for found in ways if found and float(found[0][1]) < picture.host.y
              and abs(float(found[0][0]) - x) < 10]  # fmt: skip
    bar = float(way[-1][2]) + 2
    assert picture.within(f"bridge mr-shop ({index(town, 'mr-shop')})").has(330, bar)
    assert picture.host.has(*picture.at("to 10.89.0.2:80"))
    rows = json.loads(town.shell("nft -j list map inet minirun ports4"))["nftables"]
    elements = next(row["map"]["elem"] for row in rows if "map" in row)
    assert elements == [[{"concat": [6, 8080]}, {"concat": ["10.89.0.2", 80]}]] or elements == [
        [{"concat": ["tcp", 8080]}, {"concat": ["10.89.0.2", 80]}]
    ]
    assert town.shell(f"{OUTER_GET} {HOST} 8080 < /dev/null", outside=True) == "hello"


def index(town: Host, name: str) -> int:
    return int(next(row["ifindex"] for row in links(town) if row["ifname"] == name))  # type: ignore[call-overload]


def met(town: Host) -> dict[str, str]:
    """Return what the picture in words says of each way."""
    page = town.run("network", "inspect", "--picture", env={"LC_ALL": "C.UTF-8"})
    rows = page.partition("what the first packet of a connection meets\n")[2].splitlines()
    return dict(re.split(r"\s{2,}", row.strip(), maxsplit=1) for row in rows)


def route(town: Host, verb: str) -> None:
    """Give db a default route, which an internal network has not, or take it away.

    Without it a packet ends in the container, and what the host's rules would do is not seen.
    """
    pid = json.loads(town.run("state", "db"))["pid"]
    town.shell(f"nsenter -t {pid} -n ip route {verb} default via 10.90.0.1")


def reaches(town: Host, name: str, address: str) -> bool:
    """Return True if a container gets an answer from port 80 of an address."""
    done = town("exec", name, "sh", "-c", f"{GET} {address} 80 < /dev/null")
    return "hello" in done.stdout


def test_a_wall_is_what_stops_a_packet(town: Host, picture: Picture) -> None:
    """Each rule is one of the kernel's, and real packets fare as the picture says."""
    found = met(town)
    rules = json.loads(town.shell("nft -j list chain inet minirun forward"))["nftables"]
    drops = [json.dumps(row) for row in rules if "rule" in row and "drop" in json.dumps(row)]
    for rule in {how for how in found.values() if how.startswith("stopped: ")}:
        words = rule.removeprefix("stopped: ").split()
        if words[0].startswith("net."):
            assert town.shell(f"sysctl -n {words[0]}") == words[2]
        else:
            assert any(all(word in row for word in words) for row in drops), rule
        assert rule in picture.said
    argv = [*town.inside(town.outside), sys.executable, "-c", OUTER_SERVE]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        assert server.stdout and server.stdout.readline() == b"1\n"
        route(town, "add")
        real = {
            "shop → vault": reaches(town, "web", "10.90.0.3"),
            "vault → shop": reaches(town, "db", "10.89.0.2"),
            "shop → other hosts": reaches(town, "web", OUTSIDE),
            "vault → other hosts": reaches(town, "db", OUTSIDE),
        }
        route(town, "del")
        server.kill()
    assert reaches(town, "api", "10.90.0.3"), "a neighbour on the same network"
    assert {way: how.startswith("passes") for way, how in found.items() if way in real} == real
    assert real["shop → other hosts"] and not real["vault → other hosts"]
    assert found["shop → other hosts"] == "passes, by the host's address"
    town.shell("ip route add 10.89.0.0/24 via 192.0.2.2", outside=True)
    assert "hello" not in town.shell(f"{OUTER_GET} 10.89.0.2 80 < /dev/null", outside=True)
    assert found["other hosts → shop"].startswith("stopped: ")
    strokes = [line for line in picture.lines if line.count("l5 -8") > 10]
    assert len(strokes) == 1, "one wall, between two networks"


def test_another_programs_rule_is_a_wall_too(town: Host) -> None:
    """A table of docker's or a firewall's; and without rules there is no wall."""
    town.shell("nft add table ip other; nft add chain ip other forward "
               "'{ type filter hook forward priority 0; policy drop; }'")  # fmt: skip
    try:
        assert met(town)["shop → other hosts"] == "stopped: policy drop"
        assert "▲ out: stopped: policy drop" in Picture(drawn(town)).said
    finally:
        town.shell("nft delete table ip other")
    town.run("network", "create", "--subnet", "10.91.0.0/24", "yard")
    town.run("run", "-d", "-q", "--name", "gate", "--network", "yard", "busybox", "sh", "-c", SERVE)
    assert met(town)["shop → yard"].startswith("stopped: ")
    assert not reaches(town, "web", "10.91.0.2")
    (town.store / "kept").write_text(town.shell("nft list ruleset"))
    town.shell("nft flush ruleset")
    try:
        assert met(town)["shop → yard"] == "passes" and reaches(town, "web", "10.91.0.2")
        picture = town.run("network", "inspect", "--svg", "shop", "yard")
        assert not [line for line in Picture(picture).lines if line.count("l5 -8") > 10]
    finally:
        town.shell(f"nft -f {town.store}/kept")
        town.run("rm", "-f", "gate")
        town.run("network", "rm", "yard")
    town.shell("echo 0 > /proc/sys/net/ipv4/ip_forward")
    try:
        assert set(met(town).values()) == {"stopped: net.ipv4.ip_forward is 0"}
        assert "it does NOT forward packets" in Picture(drawn(town)).said
    finally:
        town.shell("echo 1 > /proc/sys/net/ipv4/ip_forward")


TEXTS = """[...document.querySelectorAll('text')].map(one => {
    const r = one.getBBox(); return [one.textContent, r.x, r.y, r.x + r.width, r.y + r.height] })"""
BOXES = """[...document.querySelectorAll('rect')].map(one => {
    const r = one.getBBox(); return [r.x, r.y, r.x + r.width, r.y + r.height] })"""


def test_no_words_leave_their_frame(town: Host, tmp_path: Path) -> None:
    """As a browser draws them; nor does one text lie on another, or on a frame's edge."""
    installed("chromium")
    file = tmp_path / "town.svg"
    file.write_text(drawn(town))
    browser = Browser(tmp_path / "profile")
    try:
        browser.open(file)
        texts, boxes = browser.run(TEXTS), browser.run(BOXES)
        sheet = browser.run("Object.values((b => [b.x, b.y, b.x + b.width, b.y + b.height])"
                            "(document.documentElement.viewBox.baseVal))")  # fmt: skip
        assert browser.complaints() == []
    finally:
        browser.close()
    assert len(texts) > 40
    for said, left, top, right, bottom in texts:
        for x, y, x2, y2 in [*boxes, sheet]:
            apart = right <= x or left >= x2 or bottom <= y or top >= y2
            inside = left >= x and right <= x2 and top >= y and bottom <= y2
            assert apart or inside, said
    for nth, (said, left, top, right, bottom) in enumerate(texts):
        for other, left2, top2, right2, bottom2 in texts[nth + 1 :]:
            across, down = (
                min(right, right2) - max(left, left2),
                min(bottom, bottom2) - max(top, top2),
            )
            assert across < 1 or down < 3, (said, other)
