"""Two starts of different programs: what each does that the other does not, and why."""

import pytest

from conftest import Program
from minirun.faces import knowledge, recordings
from minirun.faces.knowledge import texts
from minirun.faces.show.compare import starts
from minirun.faces.show.log import recording
from minirun.faces.show.log.recording import Recording

OTHERS = ("runc", "crun")
ALL = ("plain", "gpus-0-1", *recordings.OBSERVED)


def shipped(name: str) -> Recording:
    (found,) = recording.read(recordings.path(name))
    return found


def own(found: Recording, other: Recording) -> list[str]:
    """What only `found` does: lines with stage and actor."""
    changes = starts.compare(found, other)
    return [f"{e.stage} {e.actor} {starts.line(e)}" for c in changes for e in c.gone]


@pytest.mark.parametrize("name", OTHERS)
def test_what_makes_the_container_the_same_is_no_difference(name: str) -> None:
    """Both mount /proc, /dev and the rest, and make the same nodes, each in its own order."""
    plain, other = shipped("plain"), shipped(name)
    for lines in (own(plain, other), own(other, plain)):
        for words in ("mount proc on", "mount devpts", "mount mqueue", "mknodat /dev/null c 1:3"):
            assert not [line for line in lines if words in line]
        assert not [line for line in lines if "rootfs/dev/null c" in line]
    assert starts.same(plain, other, starts.compare(plain, other)) > 70
    assert starts.compare(other, shipped(name)) == []


def test_what_differs() -> None:
    plain, runc, crun = map(shipped, ("plain", "runc", "crun"))
    only = own(plain, runc)
    assert "1 runtime mkfifo /run/minirun-demo/plain/init.fifo" in only
    assert "1 runtime mkfifo /run/minirun-demo/plain/exec.fifo" not in only, "runc has one, too"
    assert [line for line in only if line.startswith("1 init mount overlay")]
    only = own(runc, plain)
    assert "1 nsexec execve /proc/self/exe runc init" in only
    assert "2 init procHooks to runtime" in only
    assert [line for line in own(crun, runc) if line.startswith("7 init seccomp")]


def test_programs_have_their_names() -> None:
    found = {name: starts.program(shipped(name)) for name in ALL}
    assert found == {"plain": "minirun", "gpus-0-1": "minirun", "runc": "runc", "crun": "crun",
                     "runc-gpus": "runc", "podman": "runc", "cdi-podman": "runc"}  # fmt: skip


def test_each_reason_is_for_something_that_happens() -> None:
    """Every reason, of one of the shipped starts."""
    found = [shipped(name) for name in ALL]
    known = {
        topic.name
        for each in found
        for event in each.events
        if (topic := starts.reason(each, event, "en"))
    }
    assert known == texts.room("differences").keys()


@pytest.mark.parametrize(("language", "says"), [("en", "runc executes itself again"),
                                                ("ko", "runc는 자신을 다시 실행한다")])  # fmt: skip
def test_the_command(minirun: Program, language: str, says: str) -> None:
    files = [str(recordings.path(name)) for name in ("plain", "runc")]
    done = minirun("diff", *files, "--lang", language)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count(says) == 1, "a reason is said once"
    page = minirun.root.parent / "page.html"
    assert minirun("diff", *files, "--html", str(page), "--lang", language).returncode == 1
    assert says in page.read_text()


@pytest.mark.parametrize("program", ["runc", "/usr/sbin/runc"])
def test_runc_1_3_executes_its_sealed_copy_at_once(program: str) -> None:
    found = knowledge.difference(f"runc nsexec execve /runc {program} init")
    assert found
    assert found.name == "copies of itself"


def test_without_a_reason_there_is_none() -> None:
    assert knowledge.difference("runc init nosuch call") is None
