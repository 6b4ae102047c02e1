"""A container's texts do not reach the operator's terminal as they are: tried on every command."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, wait_until
from layers import STORE, layer_of
from minirun.core.keeping.visible import clean
from minirun.running.visible_json import clean_json

NAME = f"terminal-{os.getpid()}"
TITLE = "\x1b]0;owned\x07"
EVIL = ("\x1b[2J", TITLE, "\x9b2J", "a\nfaked  row", "\x7f", "\u202e", "\r\x08", "\u2028", "\u200b")
ALL = "x" + "".join(EVIL)


def assert_harmless(text: str) -> None:
    """Fail where a terminal would obey anything of this, but a newline."""
    bad = [sign for sign in text if sign != "\n" and not sign.isprintable()]
    assert not bad, ascii(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain", "plain"), ("한국어 é", "한국어 é"), ("\x1b[2J", r"\x1b[2J"), ("a\nb\tc", r"a\nb\tc"),
     ("\x9b", r"\x9b"), ("\x7f\0", r"\x7f\x00"), ("\u202e", r"\u202e"), ("\udcff", r"\xff"),
     ("\ud800", r"\ud800"), ("\U000e0041", r"\U000e0041")],
)  # fmt: skip
def test_what_is_shown(text: str, shown: str) -> None:
    assert clean(text) == shown
    assert clean(shown) == shown


def test_json_stays_the_same_value() -> None:
    value = {ALL: [ALL, "한국어", "\U000e0041"]}
    text = clean_json(json.dumps(value, indent=2, ensure_ascii=False))
    assert_harmless(text)
    assert json.loads(text) == value


@pytest.fixture
def evil(minirun: Program, tmp_path: Path) -> Iterator[Program]:
    """A container whose command, annotations, environment and labels are all escapes."""
    config: dict[str, Any] = json.loads(minirun("spec", "busybox", "true").stdout)
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    layer = layer_of("busybox")
    subprocess.run(["cp", "-a", layer, bundle / "rootfs"], check=True)
    config["root"]["path"] = "rootfs"
    rename = "printf '\\033[2J\\302\\233x' > /proc/$$/comm; sleep 100; true"
    config["process"]["args"] = ["sh", "-c", rename, *EVIL]
    config["process"]["env"] += [f"EVIL={ALL}"]
    config["annotations"] = {f"org.example.{n}": text for n, text in enumerate(EVIL)}
    config["annotations"] |= {ALL: ALL, "org.opencontainers.image.ref.name": ALL}
    config["annotations"]["io.kubernetes.cri-o.ImageName"] = ALL
    config["hostname"] = "host"
    (bundle / "config.json").write_text(json.dumps(config))
    with open(os.devnull) as null:
        argv = minirun.argv("create", "--bundle", str(bundle), NAME)
        subprocess.run(argv, stdin=null, stdout=null, stderr=null, check=True)
    assert minirun("start", NAME).returncode == 0
    pid = json.loads(minirun("state", NAME).stdout)["pid"]
    wait_until(lambda: "[2J" in Path(f"/proc/{pid}/comm").read_text(errors="replace"))
    yield minirun


COMMANDS = (
    ("ps", "-a"), ("ps", "-a", "--format", "json"), ("list",), ("list", "-f", "json"),
    ("state", NAME), ("inspect", NAME), ("inspect", "--json", NAME), ("inspect", "--devices", NAME),
    ("ps", NAME), ("ps", NAME, "-eo", "pid,comm,args"), ("timeline", NAME), ("timeline",),
    ("timeline", "--text", NAME), ("timeline", "--plain", NAME), ("gpu", "why", NAME),
    ("gpu", "why", "--json", NAME), ("exec", NAME, *EVIL), ("exec", NAME, f"/{ALL}"),
    ("exec", "-w", f"/{ALL}", NAME, "true"), ("exec", "-u", ALL, NAME, "true"), ("state", ALL),
    ("explain", ALL), ("run", ALL), ("run", "busybox", ALL), ("run", "busybox", f"/bin/{ALL}"),
    ("run", "--mount", f"type=bind,src=/{ALL},dst=/x", "busybox"), (ALL,),
    ("run", f"--{ALL}"), ("diff", ALL),
    ("delete", NAME), ("kill", NAME, ALL), ("logs", ALL), ("images", ALL), ("images", "rm", ALL),
    ("events", "--stats", NAME), ("gc",), ("run", "--gpus", ALL, "busybox"),
    ("nvidia-container-cli", "configure", f"--require={ALL}", "/"), ("replay", ALL),
)  # fmt: skip


def test_no_command_passes_them_on(evil: Program) -> None:
    for words in COMMANDS:
        done = subprocess.run(
            evil.argv(*(word.replace("\0", "") for word in words)), capture_output=True,
            stdin=subprocess.DEVNULL, check=False, timeout=60,
        )  # fmt: skip
        for stream in (done.stdout, done.stderr):
            assert_harmless(stream.decode(errors="surrogateescape"))
        assert b"Traceback" not in done.stderr, (words, done)
    shown = evil("ps", "-a").stdout.splitlines()
    made = evil("ps", "-aq").stdout.split()
    assert len(made) == 3, "the container, and two whose command was not found"
    assert [line.split()[0] for line in shown] == ["CONTAINER", *made]


OF_RECORDS = (
    ("ps", "-a"), ("ps", "--format", "table {{.ID}}\t{{.Image}}"), ("inspect", NAME),
    ("inspect", "--text", NAME), ("ps", NAME), ("timeline",), ("exec", NAME, *EVIL),
    ("exec", "-w", f"/{ALL}", NAME, "true"), ("run", ALL), ("state", ALL), ("explain", ALL),
    ("inspect", "--format", "{{index .Config.Env 0}} {{.Config.Cmd}} {{.Args}}", NAME),
)  # fmt: skip


def test_nor_on_a_terminal(evil: Program) -> None:
    """A terminal gets colours too: ours, and nothing that the container has chosen."""
    for words in OF_RECORDS:
        said = on_a_terminal(evil.argv(*words))
        assert said and b"Traceback" not in said, words
        for each in (*(sign.encode() for sign in EVIL), b"\x9b2J"):
            assert each not in said, (words, said)


def on_a_terminal(argv: list[str]) -> bytes:
    """Return what a command writes to its terminal, without the carriage returns at line ends."""
    screen, slave = os.openpty()
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
    os.close(slave)
    said = b""
    try:
        while part := os.read(screen, 65536):
            said += part
    except OSError:  # EIO: all have closed it
        pass
    finally:
        os.close(screen)
        process.wait()
    return said.replace(b"\r\n", b"\n")


def test_the_processes_without_a_ps(evil: Program, tmp_path: Path) -> None:
    done = evil("ps", NAME, env={"PATH": str(tmp_path)})
    assert_harmless(done.stdout)
    assert r"\x1b[2J" in done.stdout


def test_a_command_that_is_missing(minirun: Program) -> None:
    done = minirun("run", "--rm", "busybox", f"x{TITLE}")
    assert done.returncode == 127
    assert r"x\x1b]0;owned\x07" in done.stderr
    assert_harmless(done.stderr)


@pytest.mark.parametrize("words", [("images",), ("images", "-q"), ("images", "--verify")])
def test_an_image(minirun: Program, tmp_path: Path, words: tuple[str, ...]) -> None:
    """image.json is what its archive said: its origin is printed, its command executed."""
    store = tmp_path / "store"
    layer = layer_of("busybox")
    directory = store / "images/evil"
    (directory / "layers").mkdir(parents=True)
    subprocess.run(["cp", "-a", layer, directory / "layers/0"], check=True)
    details = json.loads(Path(STORE, "images/busybox/image.json").read_text())
    details |= {
        "name": f"evil{TITLE}", "tag": f"latest{ALL}", "origin": ALL, "cmd": [ALL],
        "env": [f"X={ALL}"], "workdir": f"/{ALL}", "user": ALL, "layers": ["layers/0"],
    }  # fmt: skip
    (directory / "image.json").write_text(json.dumps(details))
    argv = minirun.at(store).argv()
    for each in (words, ("run", "evil"), ("run", "-u", "0", "-w", "/", "evil"), ("ps", "-a")):
        done = subprocess.run([*argv, *each], capture_output=True, check=False)
        assert_harmless((done.stdout + done.stderr).decode())


OWN = "".join(EVIL)


def test_its_own_output_is_its_own(minirun: Program, tmp_path: Path) -> None:
    """Into a pipe and into a file: what reads them gets what the container has written."""
    command = ("busybox", "printf", "%s", OWN)
    asking = ("busybox", "sh", "-c", 'read x; printf %s "$0"', OWN)
    for words in (
        ("create", "--name", "made", *command), ("run", "--name", "ended", *command),
        ("run", "-d", "--name", "runs", "busybox", "sleep", "100"),
        *(("run", "-d", "-i", "--name", name, *asking) for name in ("asks-0", "asks-1")),
    ):  # fmt: skip
        assert minirun(*words).returncode == 0
    for words in (
        ("run", "--rm", *command), ("logs", "ended"), ("start", "-a", "made"),
        ("exec", "runs", *command[1:]), ("attach", "asks-{}"),
    ):  # fmt: skip
        argv = [minirun.argv(*(word.format(number) for word in words)) for number in range(2)]
        piped = subprocess.run(argv[0], input=b"x\n", stdout=subprocess.PIPE, timeout=60)
        with open(tmp_path / "file", "wb") as file:
            filed = subprocess.run(argv[1], input=b"x\n", stdout=file, timeout=60)
        assert (piped.returncode, piped.stdout) == (0, OWN.encode()), words
        assert filed.returncode == 0
        assert (tmp_path / "file").read_bytes() == OWN.encode(), words


def test_a_viewer_of_events(evil: Program) -> None:
    """`events` prints the log as it grows: JSON in ASCII."""
    viewer = evil.start("events")
    time.sleep(0.5)
    evil("exec", NAME, "echo", *EVIL)
    time.sleep(0.5)
    viewer.terminate()
    assert_harmless(viewer.communicate()[0])
