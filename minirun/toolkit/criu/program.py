"""The program criu: where it is, whether it works on this kernel, a run of it, and its complaints.

criu(8). `criu check` asks the kernel for each thing that CRIU cannot do without. CRIU writes a log
of some thousand lines; the first one that says "Error (" is nearly always the reason, and those
after it are what followed from it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping

from minirun.core import events
from minirun.core.config import DEFAULT_PATH
from minirun.core.errors import MinirunError, reason
from minirun.core.keeping.record import Record
from minirun.core.kernel import files, namespaces, process

FIRST_FD = 100
"""From here on CRIU gets the descriptors that it is to hand to the restored processes."""
_HARMLESS = ("rlimit:", "tun:")
"""What CRIU calls an error and lives with: it may not open more files, or /dev/net/tun."""
_LONGEST = 1 << 16
_NOT_BEGUN = 127
"""The status of a child that could not become CRIU; what it says is its own."""


class CriuResult(Record):
    """How a run of CRIU ended: exit status (minus the signal's number), and what it printed."""

    status: int
    output_text: str


def find() -> str:
    """Return the path of criu on this machine. Raises MinirunError if it is none that works."""
    program = shutil.which("criu", path=environment()["PATH"])
    if not program:
        raise MinirunError("criu is not installed", "apt install criu, or put it into PATH")
    done = subprocess.run(
        [program, "check"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env=environment(), check=False,
    )  # fmt: skip
    if done.returncode != 0:
        output_text = complaint(done.stdout.decode(errors="replace"))
        hint = "this kernel needs another CRIU, perhaps a newer one"
        raise MinirunError(f"{program} check: {output_text}", hint)
    return program


def environment() -> dict[str, str]:
    """Return all that CRIU sees of the caller's environment: it runs ip, tar and iptables."""
    return {"PATH": os.environ.get("PATH") or DEFAULT_PATH}


def run(
    action: str, argv: Callable[[], list[str]], fds: Mapping[int, int], *, bound: bool = False
) -> CriuResult:
    """Run CRIU's `action`, such as dump, to its end.

    `argv` returns the whole command line; it is called in the child, which it may move to where
    CRIU works. `fds` are the descriptors it inherits: its number → ours. It has a process group of
    its own, so that a key typed at the caller's terminal does not stop it half-way. `bound`: it
    dies with us.
    """
    output = os.memfd_create("criu", os.MFD_CLOEXEC)
    child, pidfd = namespaces.clone3(0, why="CRIU is a program, and works from outside")
    if child == 0:
        _become(argv, fds, output, bound=bound)
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except BaseException:
        os.kill(child, 9)
        os.waitpid(child, 0)
        raise
    finally:
        os.close(pidfd)
        output_text = os.pread(output, _LONGEST, 0).decode(errors="replace")
        os.close(output)
    events.emit("note", "criu ended", {"action": action, "status": status}, ret=status)
    return CriuResult(status, output_text)


def _become(
    argv: Callable[[], list[str]], fds: Mapping[int, int], output: int, *, bound: bool
) -> None:
    """In the child: turn into CRIU. Never returns."""
    try:
        events.become("runtime", os.getpid())
        if bound:
            process.prctl(process.PR_SET_PDEATHSIG, 9, why="no restore outlives who asked for it")
        os.setpgid(0, 0)
        words = argv()
        for number, fd in fds.items():
            os.dup2(fd, number)
        for number in (1, 2):
            os.dup2(output, number)
        os.dup2(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), 0)
        process.restore_signals()
        files.close_range_cloexec(3)
        for number in fds:
            os.set_inheritable(number, True)
        process.execve(words[0], words, environment(), why="CRIU's own command line: criu(8)")
    except MinirunError as error:
        os.write(output, error.line().encode())
    except OSError as error:
        os.write(output, f"{error.filename or 'criu'}: {reason(error)}".encode())
    finally:
        os._exit(_NOT_BEGUN)


def failure(what: str, outcome: CriuResult, log: str, hint: str) -> MinirunError:
    """Return the error for a run that failed: CRIU's own reason, and where the whole story is."""
    if outcome.status == _NOT_BEGUN:
        return MinirunError(outcome.output_text.strip(), hint)
    try:
        with open(log, errors="replace") as file:
            text = file.read()
    except OSError:
        text = ""
    where = f"; its log is {log}" if text else ""
    return MinirunError(f"criu {what}: {complaint(text or outcome.output_text)}", f"{hint}{where}")


def complaint(text: str) -> str:
    """Return the first error in what CRIU wrote, without the place in CRIU's source; one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        output_text = line.partition("Error (")[2].partition("): ")[2]
        if output_text and not output_text.startswith(_HARMLESS):
            return output_text
    return lines[-1] if lines else "it said nothing"
