"""`network inspect --picture` and `--svg` show what the kernel has, and where records differ."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from net.hosts import HOST, OUTSIDE, Host, host
from required import skip

UTF8, ASCII = {"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C"}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def shop(command: str, tmp_path: Path) -> Iterator[Host]:
    """A host of its own, with a web server on the network shop, and a guest beside it."""
    for program in ("ip", "nft"):
        if not shutil.which(program):
            skip(f"{program} is not installed")
    with host(command, tmp_path) as made:
        made.run(
            "network", "create", "--subnet", "10.99.0.0/24", "--subnet", "fd00:99::/64", "shop"
        )
        flags = ("-d", "-q", "--network", "shop", "--cap-add", "NET_ADMIN")
        made.run("run", *flags, "--name", "web", "-p", "8080:80", "busybox", "sleep", "99")
        made.run("run", *flags, "--name", "guest", "busybox", "sleep", "99")
        yield made
        made.clean()


def picture(host: Host, env: dict[str, str] = UTF8) -> str:
    done = host("network", "inspect", "--picture", "shop", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def drawing(host: Host) -> tuple[str, int]:
    """Return the words of the SVG document, and how many of its frames are broken."""
    done = host("network", "inspect", "--svg", "shop")
    assert (done.returncode, done.stderr) == (0, "")
    root = ElementTree.fromstring(done.stdout)
    assert root.tag == f"{SVG}svg"
    words = " ".join(text.text or "" for text in root.iter(f"{SVG}text"))
    return words, sum("stroke-dasharray" in frame.attrib for frame in root.iter(f"{SVG}rect"))


def pid_of(host: Host, name: str) -> str:
    return str(json.loads(host.run("state", name))["pid"])


def ip_json(host: Host, words: str, inside: str = "") -> list[dict[str, object]]:
    """Return what ip(8) says on the host, or in a container."""
    enter = f"nsenter -t {pid_of(host, inside)} -n " if inside else ""
    rows: list[dict[str, object]] = json.loads(host.shell(f"{enter}ip -j {words}"))
    return rows


def test_what_it_shows_is_what_ip_and_nft_show(shop: Host) -> None:
    page = picture(shop)
    words, broken = drawing(shop)
    out = ip_json(shop, "address show e0")[0]
    assert f"e0 ({out['ifindex']}): {HOST}/24 " in page
    assert f"default via {OUTSIDE}, MTU 1500" in page
    bridge = ip_json(shop, "link show mr-shop")[0]
    assert f"bridge mr-shop ({bridge['ifindex']})\n" in page
    assert str(bridge["address"]) in page
    assert "10.99.0.1/24 fd00:99::1/64, up" in page
    for name in ("web", "guest"):
        inner = ip_json(shop, "address show eth0", name)[0]
        outer = next(
            row for row in ip_json(shop, "link show") if row["ifindex"] == inner["link_index"]
        )
        ends = (f"{outer['ifname']} ({outer['ifindex']})", f"eth0 ({inner['ifindex']})")
        assert " ═══ ".join(ends) + f" in container {name}\n" in page
        assert ends[0] in words and ends[1] in words and f"container {name}" in words
        assert f"MAC         {inner['address']}, MTU 1500" in page
        for row in inner["addr_info"]:  # type: ignore[attr-defined]
            if row["scope"] == "global":
                assert f"{row['local']}/{row['prefixlen']}" in page
        for route in ip_json(shop, "route", name):
            via = f" via {route['gateway']}" if "gateway" in route else ""
            assert f"route       {route['dst']}{via} dev eth0\n" in page
    said = r"│   │   name        (10.99.0.[23] (?:web|guest) [0-9a-f]{12})\n"
    web, guest = re.findall(said, page)
    assert page.count(web) == words.count(web) == 1 == page.count(guest)
    for text in ("published   any address, tcp 8080 → 80\n",
                 "ports4      tcp . 8080 → 10.99.0.2 . 80\n",
                 "ip saddr @inside4 oifname != @bridges masquerade"):  # fmt: skip
        assert text in page
    assert "tcp 8080 to 10.99.0.2:80" in words
    assert "missing" not in page and "not minirun's record" not in page
    assert broken == 0


def test_every_rule_is_as_nft_writes_it(shop: Host) -> None:
    """But for what nft puts in quotes, and its name for the protocol."""
    text = (
        shop.shell("nft list table inet minirun")
        .replace('"', "")
        .replace("meta l4proto", "l4proto")
    )
    rows = re.findall(
        r"│   (?:publish|prerouting|output|postrouting) +(\S.*?)(?:   #.*)?$", picture(shop), re.M
    )
    assert len(rows) > 8
    for row in rows:
        assert row in text, row


def test_in_ascii(shop: Host) -> None:
    page = picture(shop, ASCII)
    assert page.isascii()
    assert re.search(r"\|-- veth\w+ \(\d+\) === eth0 \(\d+\) in container web\n", page)


def test_what_only_the_records_have(shop: Host) -> None:
    """The kernel loses one thing after the other."""
    for name in ("web", "guest"):
        shop.shell(f"nsenter -t {pid_of(shop, name)} -n ip address del fd00:99::2/64 dev eth0")
    shop.shell("nft delete element inet minirun ports4 '{ tcp . 8080 }'")
    shop.shell("nft delete element inet minirun inside4 '{ 10.99.0.0/24 }'")
    shop.shell("ip address del 10.99.0.1/24 dev mr-shop")
    page = picture(shop)
    assert re.findall(r"missing: +(.*)", page) == [
        "element 10.99.0.0/24 of the set inside4", "address 10.99.0.1/24 of mr-shop",
        "address fd00:99::2/64", "element tcp . 8080 : 10.99.0.2 . 80 of the map ports4",
    ]  # fmt: skip
    words, broken = drawing(shop)
    assert "missing: address fd00:99::2/64" in " ".join(words.split())
    assert broken == 2
    shop.shell("ip link del mr-shop; nft flush ruleset")
    page = picture(shop)
    assert "bridge mr-shop: not there" in page
    assert len(re.findall(r"missing: +veth\w+ is not in the bridge mr-shop", page)) == 2


def test_what_only_the_kernel_has(shop: Host) -> None:
    net = f"nsenter -t {pid_of(shop, 'web')} -n ip"
    shop.shell(f"{net} address add 10.99.0.77/24 dev eth0; {net} link add own type bridge")
    shop.shell(f"{net} route add 203.0.113.0/24 via 10.99.0.1")
    shop.shell("ip link add alien type veth peer alien2; ip link set alien master mr-shop")
    shop.shell("nft add element inet minirun ports4 '{ udp . 9 : 10.99.0.44 . 9 }'")
    try:
        assert re.findall(r"not minirun's record: (.*)", picture(shop)) == [
            "alien is in the bridge", "ports4: udp . 9 leads to 10.99.0.44 . 9",
            "address 10.99.0.77/24", "route 203.0.113.0/24 via 10.99.0.1 dev eth0", "link own",
        ]  # fmt: skip
        words, broken = drawing(shop)
        assert "alien is in the bridge" in " ".join(words.split())
        assert broken == 2
    finally:
        shop.shell("ip link del alien; nft delete element inet minirun ports4 '{ udp . 9 }'")


def test_what_a_container_chooses_is_cleaned(shop: Host) -> None:
    """A link's name and a line of hosts, with an escape of the terminal and signs of XML."""
    net = f"nsenter -t {pid_of(shop, 'web')} -n ip"
    shop.shell(f"{net} link add \"$(printf 'a\\033[2J<&')\" type bridge")
    shop.run("exec", "web", "sh", "-c", r"printf '10.0.0.9 x\033[2J<b>\n' >> /etc/hosts")
    page = picture(shop)
    assert "\x1b" not in page
    assert "not minirun's record: link a\\x1b[2J<&\n" in page
    assert "hosts       10.0.0.9 x\\x1b[2J<b>\n" in page
    words, _ = drawing(shop)
    assert "a\\x1b[2J<&" in words


def test_a_container_that_was_killed(shop: Host) -> None:
    """And its supervisor, which would have given everything back."""
    pid = pid_of(shop, "web")
    shop.shell(f"kill -9 $(ps -o ppid= -p {pid}) {pid}; sleep 0.5")
    assert "missing:    its container does not run: minirun gc takes back 10.99.0.2\n" in picture(
        shop
    )


def test_all_networks_and_none(shop: Host) -> None:
    shop.run("network", "create", "empty")
    page = shop.run("network", "inspect", "--picture")
    assert [line.split(":")[0] for line in page.splitlines() if line.startswith("network ")] == [
        "network empty", "network shop",
    ]  # fmt: skip
    assert "bridge mr-empty: not there" in page
    assert page.count("way out ") == 1, "the host is there once"
    assert shop("network", "inspect", "--picture", "nosuch").returncode == 1
    assert "not both" in shop("network", "inspect", "--picture", "--svg", "shop").stderr


def test_the_page_of_a_container(shop: Host) -> None:
    """`inspect ID` has its networks, as they are in the kernel."""
    found = json.loads(shop.run("inspect", "--json", "web"))["networks"]
    links = [row["ifname"] for row in ip_json(shop, "link show") if row.get("master") == "mr-shop"]
    assert len(found) == 1
    assert found[0]["network"] == "shop" and found[0]["bridge"] == "mr-shop"
    assert found[0]["interface"] == "eth0" and found[0]["link"] in links
    assert found[0]["addresses"] == ["10.99.0.2/24", "fd00:99::2/64"]
    assert found[0]["ports"] == ["0.0.0.0:8080->80/tcp"]
    page = shop.run("inspect", "--text", "web", env=UTF8 | {"COLUMNS": "80"})
    rows = page[page.index("Networks\n") :].splitlines()[1:3]
    assert "shop" in rows[0] and "mr-shop" in rows[0] and "10.99.0.2/24" in " ".join(rows)
    drawn = page[page.index("Networks, as the kernel has them\n") :].split("\n\n")[0]
    assert re.search(r"├── veth\w+ \(\d+\) ═══ eth0 \(2\) in container web\n", drawn)
    assert "in container guest" not in drawn and "table inet" not in drawn
    assert "│   │   published   any address, tcp 8080 → 80" in drawn
    shop.run("run", "-d", "-q", "--network", "none", "--name", "alone", "busybox", "sleep", "99")
    assert "as the kernel has them" not in shop.run("inspect", "--text", "alone")
