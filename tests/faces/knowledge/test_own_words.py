"""Every text with which minirun says that something is wrong is known to `minirun explain`.

They are read from the source, not listed here. A new text that no kind of own.toml explains, or
that could not be told from others, fails.
"""

import ast
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import minirun as package
from conftest import Program
from minirun.core.errors import _GENERAL, HINTS
from minirun.faces import knowledge
from minirun.faces.knowledge import own, source
from minirun.faces.knowledge.source import GAP, REASON, WARNING, MessageSource
from minirun.faces.knowledge.texts import AROUND, room

SOURCE = Path(package.__file__).parent
ROOMS = sorted({path.name.removesuffix(".py") for path in SOURCE.iterdir()} | {"rootfs_tools"})
PASSED_ON = Path(__file__).parents[2] / "data" / "passed-on.txt"


@cache
def every_text() -> list[tuple[MessageSource, str]]:
    """Each text with its place. All of the source is read for it, so no worker does it twice."""
    return [(one, form) for one in source.said() for form in one.texts]


def line(one: MessageSource, form: str) -> str:
    """A line as the program prints it, with x7 for each part that only the event knows."""
    before = "warning: " if one.kind == WARNING else "/x/y: " if one.kind == REASON else ""
    return f"minirun: {before}{form.replace(GAP, 'x7')}"


def passes_on(one: MessageSource, form: str = "") -> bool:
    """Return True if a text has no words of its own, or too few: the words are another's."""
    return not form or not own.is_telling(form)


def test_the_texts_are_found_in_the_source() -> None:
    assert len(every_text()) > 1000
    texts = {form for _, form in every_text()}
    some = {
        "unknown flag: {…}", "No such image: {…}", "archive: a damaged pax header",
        "{…}: no such host", "hook failed", "container not running",
        "device error: {…}: unknown device", "{…} is left out: {…}",
    }  # fmt: skip
    assert some - texts == {"hook failed"}
    kinds = {one.kind for one, _ in every_text()}
    assert {"UsageError", "NotFound", "DamagedRecord", "CommandError", REASON, WARNING} <= kinds


def test_what_is_kept_is_read_until_a_module_changes(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "minirun", ignore=shutil.ignore_patterns("__pycache__"))

    def words(script: str) -> str:
        script = f"from minirun.faces.knowledge import source; {script}"
        return subprocess.check_output([sys.executable, "-c", script], cwd=tmp_path, text=True)

    words("source.keep()")
    kept = words("source._parsed = None; print(source.said())")
    assert kept == words("print(tuple(source._parsed(source._modules())))")
    (tmp_path / "minirun/new.py").write_text("def new():\n    raise ValueError('no moon')\n")
    assert "no moon" in words("print(source.said())")


@pytest.mark.parametrize("room_of", ROOMS)
def test_every_text_is_explained(room_of: str) -> None:
    for one, form in every_text():
        if one.module.split("/")[0] == room_of and not passes_on(one, form):
            said = line(one, form)
            found = knowledge.error_text(said)
            assert [topic.kind != AROUND for topic in found] == [True], said
            assert found[0].title and found[0].cause and found[0].advice, said
            assert own.kind_of(one, form), f"no kind of own.toml explains {said}"
            assert GAP not in found[0].name, said


def test_what_is_known_of_a_text_is_of_its_own_kind() -> None:
    """A text is recognized as itself, or has an entry of its own; not as another text."""
    beginnings = [mark for one in room("own").values() for mark in one.marks if ": " in mark]
    others = []
    for one, form in every_text():
        said = line(one, form)
        if not passes_on(one, form) and not any(map(said.startswith, beginnings)):
            found, kind = knowledge.error_text(said)[0], own.kind_of(one, form)
            shown = found.name.removeprefix("/x/y: ").replace("x7", "")
            alike = len(shown) == len(form.replace(GAP, ""))
            if kind and found.kind == "own" and found.title != kind.title and not alike:
                others.append((form, found.name))
    assert others == []


def test_which_texts_only_pass_on_the_words_of_another() -> None:
    """Their list is kept by hand: a new error without words of its own has to be looked at."""
    listed = [row for row in PASSED_ON.read_text().splitlines() if row and row[0] != "#"]
    weak = {f"{one.module} {one.function}" for one in source.said() if not one.texts}
    weak |= {f"{one.module} {one.function}" for one, form in every_text() if passes_on(one, form)}
    assert sorted(weak) == listed


def test_a_text_of_a_new_room_would_not_be_known() -> None:
    new = MessageSource("ImageError", "newroom/things", "f", ("the thing {…} is not a thing",), ())
    assert own.kind_of(new, new.texts[0]) is None
    assert not knowledge.error_text("minirun: qq zz is no thing of this program") or (
        knowledge.error_text("minirun: qq zz is no thing of this program")[0].kind == AROUND
    )


def test_no_mark_is_stale() -> None:
    """Each mark of own.toml is a text's, so that an entry whose texts are gone is seen."""
    from fnmatch import fnmatchcase

    keys = [f"{one.module} {one.kind}: {form}" for one, form in every_text()]
    for one in room("own").values():
        for mark in one.marks:
            if not mark.startswith(own.PROGRAM):
                assert any(fnmatchcase(key, mark) for key in keys), mark


@pytest.mark.parametrize(("call", "name"), sorted(HINTS))
def test_a_failed_call_is_explained_at_its_call(call: str, name: str) -> None:
    number = getattr(__import__("errno"), name)
    for text in (f"{call}: /x: ", f"config.json: mounts[0]: {call}: ", f"{call}: "):
        said = f"minirun: {text}{os.strerror(number)} ({HINTS[call, name]})"
        found = knowledge.error_text(said)
        assert len(found) == 1, said
        assert found[0].kind != AROUND


@pytest.mark.parametrize("name", sorted(_GENERAL))
def test_an_error_of_the_system_is_explained(name: str) -> None:
    number = getattr(__import__("errno"), name)
    found = knowledge.error_text(f"minirun: /x/y: {os.strerror(number)}")
    assert len(found) == 1 and found[0].kind != AROUND


def schema_texts() -> list[str]:
    """What config.json's check says: the second argument of fail()."""
    tree = ast.parse((SOURCE / "oci/validate.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    fails = [call for call in calls if getattr(call.func, "id", "") == "fail"]
    return [text for call in fails for text in source._texts(call.args[1], {})]


def test_what_the_check_of_config_json_says_is_explained() -> None:
    texts = schema_texts()
    assert len(texts) > 30
    for text in texts:
        found = knowledge.error_text(f"minirun: config.json: process.x: {text.replace(GAP, 'x7')}")
        assert len(found) == 1 and found[0].kind != AROUND, text


@pytest.mark.parametrize(
    ("args", "title"),
    [
        (("run", "--memory", "x", "busybox"), "a flag's value"),
        (("run", "--nosuch", "busybox"), "minirun has no such flag"),
        (("state", "nosuch"), "there is no such container"),
        (("run", "busybox:NOSUCH:x"), "this cannot be the name of an image"),
        (("run", "-v", "/nosuch:x", "busybox", "true"), "-v, --mount"),
        (("run", "--gpus", "9", "--gpu-driver", "simulated", "busybox", "true"), "the host has no"),
        (("exec", "nosuch", "true"), "there is no such container"),
        (("load", "-i", "/etc/passwd"), "a layer, or an archive that is unpacked"),
        (("create", "--bundle", "/nosuch", "x"), "a file cannot be read"),
        (("lab", "start", "nosuch"), "there is no such lesson or lab"),
        (("timeline", "nosuch"), "what should be shown"),
    ],
)
@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_real_error_through_the_pipe(
    minirun: Program, args: tuple[str, ...], title: str, lang: str
) -> None:
    """The line as it really comes, hint and all."""
    failed = minirun(*args)
    assert failed.returncode != 0
    done = minirun("explain", "--lang", lang, input=failed.stderr, env={"COLUMNS": "300"})
    assert done.returncode == 0, failed.stderr
    if lang == "en":
        assert title in done.stdout.splitlines()[0], failed.stderr
    else:
        assert "원인" in done.stdout
