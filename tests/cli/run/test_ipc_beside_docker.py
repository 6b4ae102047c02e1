"""--ipc shareable and --ipc container:ID with minirun and with docker: who sees whose /dev/shm."""

import os
from pathlib import Path

from beside import Beside, Side

JOINED = "--ipc=container:donor"
LISTED = ("readlink", "/proc/self/ns/ipc")


def outcomes(side: Side, donor: str) -> list[object]:
    """What a donor, a private one and those that join them do; the words of errors aside."""
    call, image = side

    def run(*words: str) -> tuple[int, str, bool]:
        done = call("run", "--network=none", *words)
        return done.returncode, done.stdout, bool(done.stderr)

    def mode(name: str) -> tuple[str, bool]:
        word = call("inspect", "--format", "{{.HostConfig.IpcMode}}", name).stdout.strip()
        whole = call("inspect", "--format", "{{.Id}}", donor).stdout.strip()
        return word.replace(whole, "DONOR"), bool(whole)

    sleep = (image, "sleep", "300")
    assert run("-d", "--name=donor", "--ipc=shareable", "--shm-size=3m", *sleep)[0] == 0
    assert run("-d", "--name=private", *sleep)[0] == 0
    assert run("-d", "--name=hosts", "--ipc=host", *sleep)[0] == 0
    assert call("exec", "donor", "sh", "-c", "echo word > /dev/shm/file").returncode == 0
    try:
        shown = run(
            "--rm", JOINED, image, "sh", "-c", "cat /dev/shm/file; df -k /dev/shm | tail -1"
        )
        theirs = call("exec", "donor", *LISTED).stdout
        found: list[object] = [
            shown,
            run("--rm", JOINED, image, *LISTED)[1] == theirs,
            run("--rm", image, *LISTED)[1] == theirs,
            run("--rm", "--ipc=container:private", image, "true"),
            run("--rm", "--ipc=container:hosts", image, *LISTED)[1] == os.readlink(LISTED[1]),
            run("-d", "--name=joiner", JOINED, *sleep)[0],
            run("--rm", "--ipc=container:joiner", image, "cat", "/dev/shm/file"),
            [mode(name) for name in ("donor", "private", "joiner")],
            call("stop", "-t", "0", "donor").returncode,
            call("exec", "joiner", "cat", "/dev/shm/file").stdout,
            run("--rm", JOINED, image, "true"),
            call("stop", "-t", "0", "joiner").returncode,
            call("start", "joiner").returncode,
            call("start", "donor").returncode,
            call("exec", "donor", "ls", "/dev/shm").stdout,
            call("start", "joiner").returncode,
            call("exec", "joiner", *LISTED).stdout == call("exec", "donor", *LISTED).stdout,
        ]
    finally:
        call("rm", "-f", "donor", "private", "hosts", "joiner")
    return found


def test_beside_docker(beside: Beside) -> None:
    ours, theirs = beside.both(outcomes, "donor")
    assert ours == theirs, beside.explained(outcomes, "donor")
    assert ours[0] == [0, ours[0][1], False] and ours[0][1].startswith("word\nshm ")
    assert str(beside.minirun.root) not in Path("/proc/mounts").read_text()
