"""Commands in the half-built container: `minirun exec`, started by the stepper at a gate."""

import os
import subprocess
import sys
import time

import minirun
from minirun.common.waiting import readable
from minirun.core.keeping.settings import Settings
from minirun.faces.show.step.face import Output

MOST_OUTPUT = 1 << 20
"""Bytes of a command's output that are kept."""


def shell(settings: Settings, container_id: str, command: str) -> None:
    """Run a shell, or a command, on this process's streams. Raises OSError."""
    terminal = ["-it"] if not command and os.isatty(0) else ["-i"]
    stdin = subprocess.DEVNULL if command else None
    subprocess.run(_exec(settings, container_id, terminal, command), check=False, stdin=stdin)


def command(settings: Settings, container_id: str, words: str, seconds: float) -> Output:
    """Run `sh -c WORDS`, and return what it printed; end it after `seconds`. Raises OSError."""
    with subprocess.Popen(
        _exec(settings, container_id, ["-i"], words), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as child:  # fmt: skip
        assert child.stdout
        data, cut = _read(child.stdout.fileno(), time.monotonic() + seconds)
        if cut:
            child.terminate()  # exec ends its command with it
    return Output(child.returncode, data.decode(errors="replace"), cut)


def _exec(settings: Settings, container_id: str, flags: list[str], command: str) -> list[str]:
    words = ["sh", "-c", command] if command else ["sh"]
    return [*self_command(settings), "exec", *flags, container_id, *words]


def _read(fd: int, until: float) -> tuple[bytes, bool]:
    """Return what comes of a pipe up to a time (CLOCK_MONOTONIC), and if that was not all."""
    data = b""
    while len(data) < MOST_OUTPUT:
        if not readable(fd, until):
            return data, True
        chunk = os.read(fd, 65536)
        if not chunk:
            return data, False
        data += chunk
    return data, True


def self_command(settings: Settings) -> list[str]:
    """Return the command line that starts this program again, with the same places."""
    source = os.path.dirname(os.path.dirname(minirun.__file__))  # pip -e leaves it out of sys.path
    path = [source, *sys.path]
    start = f"import sys; sys.path[:0] = {path!r}; from minirun.__main__ import start; start()"
    return [
        sys.executable, "-ISc", start, "--root", settings.root, "--store", settings.store,
        "--cgroup", settings.cgroup_version,
    ]  # fmt: skip
