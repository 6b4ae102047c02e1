"""`explain` of what programs have written: from a pipe, and from the system's journal."""

import os
import subprocess
from pathlib import Path

import pytest

from conftest import Program
from required import installed

RUNC = (
    "docker: Error response from daemon: failed to create task for container: OCI runtime create "
    "failed: runc create failed: unable to start container process: error during container init: "
    "error running hook #0: error running hook: exit status 1, stdout: , stderr: nvidia-container-"
    "cli: requirement error: unsatisfied condition: cuda>=12.4, please update your driver\n"
)


def heads(page: str) -> list[str]:
    """The names of the topics on a page."""
    return [line.split(": the ")[0] for line in page.splitlines() if line and line[0] != " "]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("unsatisfied condition: cuda>=12.4, please update your driver", "unsatisfied condition"),
        ("CUDA error: CUDA driver version is insufficient for CUDA runtime version", "CUDA driver"),
        ("RuntimeError: CUDA error: invalid device ordinal", "invalid device ordinal"),
        ("error jailing process inside rootfs: pivot_root .: invalid argument", "pivot_root: inv"),
    ],
)
@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_text_in_words_and_from_a_pipe(minirun: Program, text: str, name: str, lang: str) -> None:
    told = minirun("explain", "--lang", lang, text).stdout
    assert told.startswith(name)
    for words in ((), ("-",)):
        done = minirun("explain", "--lang", lang, *words, input=f"first line\n{text}\n")
        assert (done.returncode, done.stdout) == (0, told)


def test_a_cause_and_the_words_around_it(minirun: Program) -> None:
    """One line is explained once: by its cause."""
    done = minirun("explain", input=RUNC, env={"COLUMNS": "100"})
    assert [name.split(":")[0] for name in heads(done.stdout)] == ["unsatisfied condition"]


def test_a_text_that_says_nothing(minirun: Program) -> None:
    done = minirun("explain", "-", input="qq zz\n" * 500)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "minirun: nothing is known of this text (give the line with the error)\n"
    )


def test_nothing_on_the_standard_input_lists_all(minirun: Program) -> None:
    assert "Stages:" in minirun("explain", stdin=subprocess.DEVNULL).stdout
    assert "Stages:" in minirun("explain", input="").stdout


def test_the_last_failure_by_minirun_s_own_logs(minirun: Program) -> None:
    for gpu in ("8", "9"):
        minirun("run", f"--gpus=device={gpu}", "--gpu-driver=simulated", "busybox", "true")
    minirun("run", "--rm", "busybox", "true")
    done = minirun("explain", "--journal")
    assert done.returncode == 0, done.stderr
    assert "stage 5: device error: 9: unknown device" in done.stderr
    assert done.stdout.startswith("device error: unknown device: the host has no such GPU")


def test_a_failure_of_which_only_the_stage_is_known(minirun: Program, tmp_path: Path) -> None:
    minirun("run", "-v", f"{tmp_path}/nosuch:x", "busybox", "true")
    minirun("run", "--device", "/dev/null:/etc/passwd/x", "busybox", "true")
    done = minirun("explain", "--journal")
    assert (done.returncode, done.stdout[:6]) == (0, "stage "), done.stderr


def test_no_failure_is_one_line(minirun: Program) -> None:
    done = minirun("explain", "--journal", env={"PATH": "/nonexistent"})
    if "dockerd" in done.stderr or done.returncode == 0:
        pytest.skip("this machine's own journal has a failure")
    assert done.returncode == 1
    assert done.stderr == (
        "minirun: no container is known that failed to start "
        "(neither minirun's logs nor the journal have one)\n"
    )
    done = minirun("explain", "--journal", "word")
    assert (done.returncode, done.stderr) == (1, "minirun: --journal takes no WORD\n")


JOURNAL = """
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mkdir -p /run/systemd/journal /run/log/journal
/lib/systemd/systemd-journald >/dev/null 2>&1 &
daemon=$!
for turn in 1 2 3 4 5 6 7 8 9 10; do
    [ -S /run/systemd/journal/stdout ] && break
    sleep 0.2
done
echo 'an older error of runc: device error: 9: unknown device' | systemd-cat -t containerd
cat | systemd-cat -t dockerd
echo 'all is well' | systemd-cat -t dockerd
for turn in 1 2 3 4 5 6 7 8 9 10; do
    journalctl -q -t dockerd | grep -q 'all is well' && break
    sleep 0.2
done
"$@"
status=$?
kill $daemon
wait
exit $status
"""
"""A journal of its own, by the real journald, in a mount namespace of its own."""


def test_the_last_failure_by_the_journal(minirun: Program) -> None:
    installed("systemd-cat", "/usr/bin")
    argv = ["unshare", "-m", "--propagation", "private", "sh", "-c", JOURNAL, "sh"]
    done = subprocess.run(
        [*argv, *minirun.argv("explain", "--journal")], input=RUNC, text=True, check=False,
        capture_output=True, env={**os.environ, "COLUMNS": "100"}, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "dockerd: docker: Error response from daemon" in done.stderr
    assert done.stdout.startswith("unsatisfied condition")
