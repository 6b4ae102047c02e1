"""How `make bats` reads, changes and explains runc's tests; they are run by it alone."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

PRINTED = """1..4
ok 1 runc exec # 1 of 2
not ok 2 runc --debug exec
# (in test file exec.bats, line 187)
#   `[[ "${output}" == *"level=debug"* ]]' failed
ok 3 runc exec [v2] # skip test requires cgroups_v2
ok 4 update # skip
"""


@pytest.fixture(autouse=True)
def beside(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    yield
    for name in ("run", "reasons", "suite"):
        sys.modules.pop(name, None)


def test_reading():
    import run

    found = run.parse(PRINTED)
    assert [(name, result.word) for name, result in found.items()] == [
        ("runc exec", "ok"),
        ("runc --debug exec", "not ok"),
        ("runc exec [v2]", "skip"),
        ("update", "skip"),
    ]
    assert "line 187" in found["runc --debug exec"].printed
    assert found["runc exec"].printed == ""


def test_a_line_goes_or_its_words_do():
    from reasons import Words

    text = "runc -v\n[[ ${lines[0]} =~ runc\\ version ]]\nfind -name id -o\n"
    assert Words("version", "*", "runc\\ version", "").change(text).splitlines()[1] == ":"
    changed = Words("version", "*", "-name id ", "", "-name id.* ").change(text)
    assert changed.splitlines()[2] == "find -name id.* -o"
    with pytest.raises(ValueError, match="no line has 'nothing'"):
        Words("version", "*", "nothing", "").change(text)


def test_a_refusal_needs_its_words():
    import reasons

    name = "runc run/create should warn about a non-empty cgroup"
    assert "runc 1.1" in reasons.of_failure("cgroups", name, "3 processes are in it already")
    assert reasons.of_failure("cgroups", name, "Traceback") == ""
    assert reasons.of_failure("exec", name, "3 processes are in it already") == ""


def test_a_test_that_passes_with_runc_alone_is_unexplained(capsys):
    import run

    ok, failed = run.Result("ok"), run.Result("not ok", "# (line 3)\n")
    assert run._show("kill", {"a": ok, "b": failed, "c": ok}, {"a": failed, "b": failed}) == 2
    assert capsys.readouterr().out.splitlines() == [
        "ok      not ok  kill: a",
        "                UNEXPLAINED",
        "not ok  not ok  kill: b",
        "ok      nothing kill: c",
        "                UNEXPLAINED",
    ]
    assert run._show("version", {"runc version": ok}, {"runc version": run.Result("words")}) == 0
    assert "runc\\ version" in capsys.readouterr().out
