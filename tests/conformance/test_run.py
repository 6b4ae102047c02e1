"""How `make conformance` counts and explains; the programs themselves are run by it alone."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

PRINTED = """TAP version 13
ok 1 - has expected hostname
  ---
  {
    "stdout": "not ok 1 - of somebody else's"
  }
  ...
not ok 2 - memory kernel is set correctly
# expect: 1, actual: 2
ok 3 # SKIP linux.devices is not set
not ok 4 # TODO one day
1..4
"""


@pytest.fixture(autouse=True)
def beside(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    yield
    for name in ("run", "reasons", "suite"):
        sys.modules.pop(name, None)


def test_counting():
    import run

    assert run.parse(PRINTED) == (1, ["memory kernel is set correctly", "# TODO one day"], 1)


def test_a_reason_needs_its_evidence():
    from reasons import why

    assert "5.16" in why("linux_cgroups_relative_memory", "memory kernel is set correctly", "")
    assert "CFQ" in why("linux_cgroups_blkio", "exit status 1", "no blkio.leaf_weight here")
    assert why("linux_cgroups_blkio", "exit status 1", "no blkio.throttle.read_bps_device") == ""
    assert why("process_capabilities", "expected bounding capability CAP_CHOWN set", "") == ""
    assert why("default", "has expected hostname", "") == ""


SUITE = {
    "talks": "#!/bin/sh\nprintf 'ok 1 - a\\nnot ok 2 - b\\n'\n",
    "fails": "#!/bin/sh\necho 'no such thing' >&2; exit 3\n",
    "hangs": '#!/bin/sh\ntest "$$" != 1 && mountpoint -q /run && sleep 60\n',
}


ALONE = """TAP version 13
  ---
  {
    "error": "no order\\nRefer to: a page"
  }
  ...
"""


def test_an_error_without_a_result_is_a_complaint(tmp_path, monkeypatch):
    import run

    monkeypatch.setattr(run, "TEST_CGROUPS", ())
    for name, printed, complaints in (
        ("alone", ALONE, [("error", "no order", "")]),
        ("beside", f"{ALONE}ok 1 - a\n", []),
    ):
        write(tmp_path, {name: f"#!/bin/sh\ncat <<'END'\n{printed}END\n"})
        found = run._run(tmp_path, name, "/bin/false", tmp_path / f"{name}.txt")
        assert found.complaints == complaints


def write(directory, suite):
    (directory / "validation").mkdir(exist_ok=True)
    for name, text in suite.items():
        path = directory / "validation" / name
        path.write_text(text)
        path.chmod(0o755)


def test_a_program_that_may_lose_a_race_has_a_second_try(tmp_path, monkeypatch, capsys):
    import run

    first = tmp_path / "first"
    late = f"#!/bin/sh\nif [ -e {first} ]; then echo ok 1; else touch {first}; echo not ok 1; fi\n"
    write(tmp_path, {"killsig": late, "talks": SUITE["talks"]})
    monkeypatch.setattr(run, "TEST_CGROUPS", ())
    for name, complaints in (("killsig", 0), ("talks", 1)):
        found = run._run_fairly(tmp_path, name, "/bin/false", tmp_path / f"{name}.txt")
        assert len(found.complaints) == complaints
    assert capsys.readouterr().out.startswith("killsig: a second try: it sends its signal")


def test_what_took_too_long_has_a_second_try(tmp_path, monkeypatch):
    import run

    first = tmp_path / "first"
    slow = f"#!/bin/sh\nif [ -e {first} ]; then echo ok 1; else touch {first}; sleep 60; fi\n"
    write(tmp_path, {"slow": slow})
    monkeypatch.setattr(run, "TIMEOUT", 1)
    monkeypatch.setattr(run, "TEST_CGROUPS", ())
    found = run._run_fairly(tmp_path, "slow", "/bin/false", tmp_path / "slow.txt")
    assert (found.ok, found.complaints) == (1, [])


def test_programs_in_namespaces_of_their_own(tmp_path, monkeypatch, capsys):
    import run

    write(tmp_path, SUITE)
    monkeypatch.setattr(run, "TIMEOUT", 1)
    monkeypatch.setattr(run, "TEST_CGROUPS", ())
    found = {n: run._run(tmp_path, n, "/bin/false", tmp_path / f"{n}.txt") for n in SUITE}
    assert found["talks"].complaints == [("not ok", "b", "")]
    assert found["fails"].complaints == [("failed", "no such thing", "")]
    assert found["hangs"].complaints == [("failed", "TIMEOUT after 1 s", "")]
    assert "--- exit status 3" in (tmp_path / "fails.txt").read_text()
    assert run._total(list(found.values())) == 3
    assert capsys.readouterr().out.splitlines() == [
        "programs=3 failed=2 timeouts=1 unexplained=3",
        "total: ok=1 notok=1 skip=0",
    ]
