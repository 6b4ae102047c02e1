"""`minirun timeline`: what is recorded, and each start shown again."""

import json
import re
from pathlib import Path

import pytest

from conftest import Program
from engines.clients.screen import Screen
from minirun.faces import recordings

GPUS = ("--gpus", "0,1", "--gpu-driver=simulated")
ASCII = {"LC_ALL": "C"}


def output(minirun: Program, *args: str) -> None:
    """Run a container, to success."""
    done = minirun("run", *args)
    assert done.returncode == 0, done.stderr


def test_a_living_container_and_one_that_has_gone(minirun: Program) -> None:
    output(minirun, "--rm", "--name", "gone-1", *GPUS, "busybox", "echo", "hi")
    minirun("run", "-d", "--name", "alive", "busybox", "sleep", "60")
    refused = minirun("run", "--rm", "--name", "broken", "busybox", "/nosuch")
    assert refused.returncode == 127
    head, *rows = minirun("timeline").stdout.splitlines()
    assert head.split() == [
        "NAME",
        "ID",
        "LAST",
        "EVENT",
        "STATE",
        "STAGES",
        "RESULT",
        "GPUS",
        "IMAGE",
        "COMMAND",
    ]
    broken, alive, gone = (" ".join(row.split()) for row in rows)
    assert re.match(r"broken [0-9a-f]{12} .* removed 123--6x failed busybox", broken)
    assert alive.startswith("alive ")
    assert alive.endswith(" running 123--67 started busybox sleep 60")
    assert gone.startswith("gone-1 ")
    assert gone.endswith(" removed 1234567 started 0,1 SIMULATED busybox echo hi")
    shown = minirun("timeline", "-n", "1").stdout.splitlines()
    assert len(shown) == 3
    assert shown[2] == "2 more: minirun timeline --last 0"
    assert len(minirun("timeline", "--last=0").stdout.splitlines()) == 4
    for row in (alive, gone):
        name, begin, *_ = row.split()
        for words in (name, begin, begin[:8]):
            text = minirun("timeline", words, env=ASCII).stdout
            assert "|<------- RUN_HOOKS -------+" in text
            assert re.match(rf"container {name}( \(GPUs SIMULATED\))?: started after ", text)
    assert minirun("timeline", "ali").returncode == 1, "a name is whole, as docker has it"
    assert "GPUs SIMULATED" in text.splitlines()[0]
    assert "failed: " in minirun("timeline", "broken").stdout


def test_nothing_recorded(minirun: Program) -> None:
    assert "no container is recorded yet" in minirun("timeline").stdout
    assert not minirun.root.exists()


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("nosuch",), "no recording of 'nosuch'"),
        (("/etc/passwd",), "/etc/passwd: holds no events of minirun"),
        (("plain", "--level", "all"), "invalid --level 'all' (summary, stages or syscalls)"),
        (("plain", "--plain", "--text"), "--plain or --text, not both"),
        (("a", "b"), "timeline takes one container or file"),
        (("--last", "many"), "invalid --last 'many'"),
        (("plain", "--trace", "/nosuch/file"), "/nosuch/file: No such file or directory"),
    ],
)
def test_mistakes(minirun: Program, args: tuple[str, ...], text: str) -> None:
    done = minirun("timeline", *args)
    assert done.returncode != 0
    assert text in done.stderr
    assert done.stderr.count("\n") == 1


def test_text_keeps_every_event_and_every_character(minirun: Program) -> None:
    path = recordings.path("gpus-0-1")
    text = minirun("timeline", str(path), "--text").stdout
    events = path.read_text().splitlines()
    gates = sum('"gate"' in line for line in events)
    assert len(events) - gates <= len(text.splitlines()) - 1 <= len(events)
    assert "…" not in text
    assert "--ldconfig=@/sbin/ldconfig --device=0,1 --compute --utility" in text
    fewer = minirun("timeline", str(path), "--text", "--level", "stages").stdout
    assert 20 < len(fewer.splitlines()) < 60


def test_plain_is_sentences(minirun: Program) -> None:
    first, *lines = minirun("timeline", "plain", "--plain").stdout.splitlines()
    assert first.startswith("container plain: started after ")
    assert first.endswith(".")
    assert all(line.startswith(("Stage ", "At ")) and line.endswith(".") for line in lines)
    assert not set("│├└─|<>") & set("".join(line.split(" calls ")[0] for line in lines))


def test_standard_input_and_output(minirun: Program, tmp_path: Path) -> None:
    text = recordings.path("figure-1").read_text()
    shown = minirun("timeline", "-", input=text).stdout
    assert [line[10] for line in shown.splitlines() if line.startswith("container ")] == list("abc")
    out = tmp_path / "trace.json"
    assert minirun("timeline", "-", "--trace", str(out), input=text).stdout == ""
    piped = minirun("timeline", "-", "--trace=-", input=text).stdout
    assert json.loads(piped) == json.loads(out.read_text())
    assert json.loads(piped)["otherData"] == {"minirun.gpus": "SIMULATED in a, b, c"}
    nothing = minirun("timeline", "-", input="")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "standard input: holds no events of minirun" in nothing.stderr


def test_an_image_has_the_name_by_which_it_was_run(minirun: Program, tmp_path: Path) -> None:
    """Not that of a tag which was added later: of the same layers every name is as good."""
    saved, own = str(tmp_path / "saved.tar"), minirun.at(tmp_path / "store")
    assert minirun("save", "-o", saved, "busybox").returncode == 0
    assert own("load", "-i", saved).returncode == 0
    assert own("run", "--rm", "busybox", "true").returncode == 0
    for tag in ("aaa", "busybox:1"):
        assert own("tag", "busybox", tag).returncode == 0
    assert own("run", "--rm", "aaa", "true").returncode == 0
    assert own("run", "--rm", "busybox:1", "true").returncode == 0
    _, *rows = own("timeline").stdout.splitlines()
    assert [row.split()[-2] for row in rows] == ["busybox:1", "aaa", "busybox"]


def test_html(minirun: Program, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = minirun("timeline", "plain", "--html", str(page))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")


HOSTILE = (
    '{"v":1,"t":1,"id":"\\u001b[2Jx","stage":1,"actor":"\\u001b]0;a\\u0007","pid":1,'
    '"kind":"note","name":"\\u202eb","args":{"p\\u001b":"\\u009b1m"},"why":"\\r"}'
)
BROKEN = (
    "[1]", "{}", '{"t":"1"}', '{"t":1,"stage":[]}', '{"t":1,"args":[]}', '{"t":1,"dur":"x"}',
    '{"t":1,"kind":null}', "[" * 100_000, "\x00", '{"t":1,"kind":"note","name":"snapshot"}',
)  # fmt: skip


def test_a_hostile_file(minirun: Program, tmp_path: Path) -> None:
    """Nothing reaches the terminal that it would obey, and no line is fatal."""
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join([*BROKEN, HOSTILE, "", "half a li"]))
    for flags in ((), ("--plain",), ("--text",), ("--level=syscalls",)):
        done = minirun("timeline", str(path), *flags, env={"LANG": "C.UTF-8"})
        assert done.returncode == 0, done.stderr
        assert all(line.isprintable() for line in done.stdout.splitlines())
        assert r"\x1b[2Jx" in done.stdout
        assert "9 lines unreadable" in done.stdout
    assert minirun("timeline", str(path), "--trace", "-").returncode == 0


def test_an_id_that_means_several(minirun: Program, layer: Path) -> None:
    config = minirun.spec("true") | {"root": {"path": str(layer)}}
    (layer.parent / "config.json").write_text(json.dumps(config))
    for name in ("pair-1", "pair-2"):
        output(minirun, "--bundle", str(layer.parent), name)
    done = minirun("timeline", "pair")
    assert done.returncode == 1
    assert "'pair' may be pair-1, pair-2" in done.stderr


def test_a_long_name_does_not_widen_it(minirun: Program) -> None:
    """At a terminal of 80 columns; what goes elsewhere is whole."""
    name = "n" * 120
    output(minirun, "--name", name, "busybox", "echo", "hi")
    output(minirun, "--rm", "--name", "short", "busybox", "echo", "hi")
    env = {"LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
    for words in (("timeline",), ("timeline", name)):
        screen = Screen(minirun.argv(*words), env)
        shown = screen.rest().replace("\r", "").splitlines()
        assert screen.wait() == 0 and max(map(len, shown)) <= 80, words
        assert any(f"{'n' * 9}…" in line and "started" in line for line in shown), shown
    (row,) = [line for line in minirun("timeline").stdout.splitlines() if name in line]
    assert row.endswith(" echo hi")
    assert minirun("timeline", name).stdout.startswith(f"container {name}: started after ")
