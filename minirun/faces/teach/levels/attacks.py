"""Ways out of a learner's container: small programs that try them, in the sandbox, on decoys.

Each is a script that runs in the container, and a look at what has become of a decoy beside it. The
level that holds it stands with it in ATTACKS; a program of a lower level lets it out.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

from minirun.faces.teach.levels import checks, facts
from minirun.faces.teach.levels.checks import Promise, gpus, process
from minirun.faces.teach.levels.material import HOME
from minirun.faces.teach.levels.tried import NotYet, TriedProgram

OUT = "got-out"
"""The key of the finding."""
_PORT, _PROCESSES, _SLEEP = 9099, 60, "4321.5"
_FORWARDING = "/proc/sys/net/ipv4/ip_forward"
SCRIPTS = {
    "kill": 'for p in /proc/[0-9]*; do case "$(tr "\\0" " " <$p/cmdline)" in'
            f' "sleep {_SLEEP} ") kill -9 ${{p#/proc/}};; esac; done',
    "rename": "hostname taken",
    "read": f"cat {HOME}/decoy",
    "open_device": "mknod /dev/other c 195 200; cat /dev/other",
    "forward": f"echo 1 >{_FORWARDING}",
    "fork": f"i=0; while [ $i -lt {_PROCESSES} ]; do sleep 3 & i=$((i+1)); done; echo all",
    "follow": "cat /proc/self/fd/50/decoy",
    "connect": f"PATH=$PATH:{HOME}/layer0/bin; busybox nc -w 1 127.0.0.1 {_PORT} </dev/null",
}  # fmt: skip
"""Attack → what it runs in the container: busybox's sh. No other than these is run."""


def kill(program: TriedProgram) -> None:
    """A process of the host is killed."""
    decoy = subprocess.Popen(["sleep", _SLEEP])
    try:
        _run(program, "kill")
        if decoy.poll() is not None:
            raise NotYet(OUT, f"sleep {_SLEEP}")
    finally:
        decoy.kill()
        decoy.wait()


def rename(program: TriedProgram) -> None:
    """The host gets another name."""
    before = socket.gethostname()
    _run(program, "rename")
    if (name := socket.gethostname()) != before:
        socket.sethostname(before)
        raise NotYet(OUT, name)


def read(program: TriedProgram) -> None:
    """A file of the host is read."""
    secret = _decoy()
    if secret in _run(program, "read"):
        raise NotYet(OUT, f"{HOME}/decoy")


def open_device(program: TriedProgram) -> None:
    """A device that the container was not given is opened: mknod makes a node for any."""
    done = program.run("/bin/sh", "-c", SCRIPTS["open_device"])
    if not gpus.refused(done.err, "/dev/other"):
        raise NotYet(OUT, "195:200")


def forward(program: TriedProgram) -> None:
    """A setting of the host's network is changed."""
    before = Path(_FORWARDING).read_text()
    _run(program, "forward")
    if (after := Path(_FORWARDING).read_text()) != before:
        Path(_FORWARDING).write_text(before)
        raise NotYet(OUT, f"ip_forward = {after.strip()}")


def fork(program: TriedProgram) -> None:
    """All processes that the host has are used up."""
    flags = ("--pids-limit", "20") if program.number >= FORK_SINCE else ()
    done = program.run("/bin/sh", "-c", SCRIPTS["fork"], flags=flags)
    if "all" in done.out and "fork" not in done.err:
        raise NotYet(OUT, str(_PROCESSES))


def follow(program: TriedProgram) -> None:
    """A directory that the caller has open leads to the host's files: CVE-2024-21626."""
    secret = _decoy()
    directory = os.open(HOME, os.O_RDONLY)
    os.dup2(directory, 50)
    try:
        started = program.start(program.words("/bin/sh", "-c", SCRIPTS["follow"]), fds=(50,))
        if secret in started.wait().out:
            raise NotYet(OUT, f"{HOME}/decoy")
    finally:
        os.close(50)
        os.close(directory)


def connect(program: TriedProgram) -> None:
    """A server that listens on the host's lo alone is asked: CVE-2020-15257 was of this kind."""
    secret = secrets.token_hex(8)
    with socket.create_server(("127.0.0.1", _PORT)) as server:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.sendall(secret.encode())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        said = _run(program, "connect")
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)  # no one has called
        thread.join()
    if secret in said:
        raise NotYet(OUT, f"127.0.0.1:{_PORT}")


def _run(program: TriedProgram, name: str) -> str:
    """Run the script of an attack in the container; return what it printed. Raises NotYet."""
    return program.run("/bin/sh", "-c", SCRIPTS[name]).out


def _decoy() -> str:
    """Write a file of the host that no container is to read; return what is in it."""
    secret = secrets.token_hex(8)
    (HOME / "decoy").write_text(secret)
    return secret


def attacks(number: int) -> list[Promise]:
    """Return those that are tried on a level, whether it holds them or not."""
    return [each for each in ATTACKS if number <= each.until]


def results(program: TriedProgram) -> list[list[str]]:
    """Return what came of each attack: the key of its finding, and the detail.

    The key is "" of one that was held, :data:`OUT` of one that got out. If the program runs no
    command, the first row says so, and the others are withheld.
    """
    before, tried = facts.mounts(), attacks(program.number)
    key, detail = checks.asked(program, Promise(process.it_runs, 0), before)
    if key:
        return [[key, detail], *([checks.WITHHELD, ""] for _ in tried[1:])]
    return [list(checks.asked(program, each, before)) for each in tried]


FORK_SINCE = 6
ATTACKS = (
    Promise(kill, 1), Promise(rename, 1), Promise(read, 2), Promise(open_device, 5),
    Promise(fork, FORK_SINCE), Promise(forward, 7), Promise(follow, 7), Promise(connect, 8, 8),
)  # fmt: skip
"""All attacks, each with the level that holds it. Which network a container of level 9 has, an
engine says."""
