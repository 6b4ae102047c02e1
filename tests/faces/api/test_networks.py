"""`minirun.network`: what a notebook, a browser and a prompt show of networks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from faces.show.browser import Browser
from net.hosts import Host, host
from required import installed

SVG = "{http://www.w3.org/2000/svg}"
ASK = """
import json, minirun, sys
try:
    shown = minirun.network(*map(eval, sys.argv[1:]))
    print(json.dumps([str(shown), shown._repr_html_(), shown.svg]))
except Exception as error:
    print(json.dumps([f"{type(error).__name__}: {error}"]))
"""
HOSTILE = r"10.0.0.9 \033[2J<script>alert(1)</script>&\n10.0.0.8 한글한글한글한글한글한글한글\n"
LONG = "W" * 60
OUTSIDE = """
[...document.querySelectorAll('svg text')].filter(text => {
    const at = text.getBoundingClientRect();
    const holds = frame => {
        const of = frame.getBoundingClientRect();
        return of.left <= at.left && of.right >= at.right && of.top <= at.top
            && of.bottom >= at.bottom;
    };
    return !/^(other hosts|(tcp|udp) \\d+)$/.test(text.textContent)
        && ![...document.querySelectorAll('svg rect')].some(holds);
}).map(text => text.textContent)
"""
"""The words that no frame holds whole; what is outside the host has none."""
OVERLAPS = """
(() => {
    const all = [...document.querySelectorAll('svg text')].map(
        text => [text.textContent, text.getBoundingClientRect()]);
    return all.flatMap(([one, a], n) => all.slice(n + 1).filter(([other, b]) =>
        a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3
    ).map(([other]) => [one, other]));
})()
"""


@pytest.fixture(scope="module")
def shop(command: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Five containers on a network, one of them hostile, one with a long name, one on another."""
    for program in ("ip", "nft"):
        installed(program)
    with host(command, tmp_path_factory.mktemp("shop")) as made:
        made.run("network", "create", "--subnet", "10.99.0.0/24", "--subnet", "fd00:99::/64",
                 "shop")  # fmt: skip
        made.run("network", "create", "--internal", "vault")
        flags = ("run", "-d", "-q", "--network", "shop", "--cap-add", "NET_ADMIN")
        made.run(*flags, "--name", "web", "-p", "8080:80", "busybox", "sleep", "999")
        for name in ("hostile", LONG, "till", "cellar"):
            more = ("--network", "vault") if name == "cellar" else ()
            made.run(*flags, *more, "--name", name, "busybox", "sleep", "999")
        made.run("exec", "hostile", "sh", "-c", f"printf '{HOSTILE}' >> /etc/hosts")
        pid = json.loads(made.run("state", "hostile"))["pid"]
        made.shell(f"nsenter -t {pid} -n ip link add \"$(printf 'a\\033[2J<&')\" type bridge")
        made.run("run", "-d", "-q", "--network", "none", "--name", "alone", "busybox", "sleep",
                 "999")  # fmt: skip
        yield made
        made.clean()


def ask(host: Host, *words: str) -> list[str]:
    """Return what minirun.network(*words) shows: text, HTML, SVG; or its error."""
    env = os.environ | {"MINIRUN_ROOT": str(host.root), "MINIRUN_STORE": str(host.store),
                        "LC_ALL": "C.UTF-8"}  # fmt: skip
    done = subprocess.run(
        [*host.inside(), sys.executable, "-c", ASK, *words], env=env, text=True, check=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    shown: list[str] = json.loads(done.stdout)
    return shown


def words_of(document: str) -> str:
    root = ElementTree.fromstring(document)
    return " ".join(text.text or "" for text in root.iter(f"{SVG}text"))


def test_by_name_by_container_and_all(shop: Host) -> None:
    for words, networks in (
        (["'shop'"], ["shop"]), (["'vault'"], ["vault"]), (["'web'"], ["shop"]),
        (["minirun.Container('cellar')"], ["shop", "vault"]), ([], ["shop", "vault"]),
    ):  # fmt: skip
        text, html, svg = ask(shop, *words)
        found = [line.split()[1][:-1] for line in text.splitlines() if line.startswith("network ")]
        assert found == networks, words
        for each in networks:
            assert f"network {each}: " in words_of(svg)
            assert f"network {each}: " in html
    text, html, svg = ask(shop, "'shop'")
    env = {"LC_ALL": "C.UTF-8"}
    assert text == shop("network", "inspect", "--picture", "shop", env=env).stdout.rstrip("\n")
    assert svg == shop("network", "inspect", "--svg", "shop").stdout.rstrip("\n")


def test_what_there_is_none_of(shop: Host) -> None:
    assert ask(shop, "'nosuch'")[0].startswith("StateError: container 'nosuch' does not exist")
    assert ask(shop, "'alone'") == ["StateError: container alone has no network of minirun's"]


def test_a_notebooks_form(shop: Host) -> None:
    """One that takes the colours around it, has a name for a screen reader, and no id."""
    _, html, svg = ask(shop, "'shop'")
    figure = ElementTree.fromstring(html)
    (picture,) = figure.iter(f"{SVG}svg")
    title = ElementTree.fromstring(svg).findtext(f"{SVG}title")
    assert title and "eth0 (2) in container web" in title
    assert picture.get("aria-label") == title
    assert picture.get("role") == "img"
    assert not list(picture.iter(f"{SVG}style"))
    assert not [each for each in picture.iter() if each.get("id")]
    assert words_of(svg) == " ".join(text.text or "" for text in picture.iter(f"{SVG}text"))


def test_what_a_container_chooses_stays_text(shop: Host) -> None:
    for shown in ask(shop, "'shop'"):
        assert "\x1b" not in shown
    text, html, svg = ask(shop, "'shop'")
    assert "<script" not in html + svg
    assert "not minirun's record: link a\\x1b[2J<&" in words_of(svg)
    assert "10.0.0.9 \\x1b[2J<script>alert(1)</script>&" in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser(shop: Host, browser: Browser, tmp_path: Path, scheme: str) -> None:
    """All words are whole in their frames, none is over another, at a size that can be read."""
    _, html, svg = ask(shop)
    (tmp_path / "shop.svg").write_text(svg)
    colours = {"light": "#fff;color:#111", "dark": "#111;color:#eee"}[scheme]
    body = f'<body style="background:{colours};width:900px">{html}'
    (tmp_path / "shop.html").write_text(f"<!doctype html><title>x</title>{body}")
    for name in ("shop.svg", "shop.html"):
        browser.events.clear()
        browser.open(tmp_path / name, scheme=scheme)
        assert browser.run("document.querySelectorAll('svg text').length") > 50
        assert browser.run(OUTSIDE) == [], name
        assert browser.run(OVERLAPS) == [], name
        least = browser.run("Math.min(...[...document.querySelectorAll('svg text')].map("
                            "text => text.getBoundingClientRect().height))")  # fmt: skip
        assert least > 10, name
        ink = browser.run("getComputedStyle(document.querySelector('svg text')).fill")
        light = sum(map(int, ink.removeprefix("rgb(").removesuffix(")").split(","))) > 3 * 128
        assert light == (scheme == "dark"), name
        assert browser.complaints() == []
    if folder := os.environ.get("MINIRUN_SCREENSHOTS"):
        shot = browser.screenshot(captureBeyondViewport=True)
        (Path(folder) / f"network-{scheme}.png").write_bytes(shot)
