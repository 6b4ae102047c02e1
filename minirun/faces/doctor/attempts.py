"""What this machine can do: every ability is tried for real, in a child process that ends with it.

Nothing is concluded from a version number or a configuration file if the thing itself can be tried:
a container, a sandbox or a security module may refuse what the kernel knows.
"""

import os
import select
import signal
import tempfile
from collections.abc import Callable
from typing import NamedTuple

from minirun import cgroups
from minirun.core.errors import MinirunError, reason
from minirun.core.keeping.numbers import whole
from minirun.core.kernel import process
from minirun.core.rootfs.tree import remove_tree

_SECONDS = 20
_PREFIX = ".doctor-"
_ANSWER_SIZE = 4096


class Workplace(NamedTuple):
    """Where to try: a fresh directory on the file system of the containers, and the store."""

    scratch: str
    store: str


class Lacking(Exception):
    """This machine does not have it; the text says what was found instead.

    `advice` says what to do if the ability's own advice does not fit.
    """

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.advice = advice


class Ability(NamedTuple):
    """One thing to try.

    `attempt` runs in a child process. It returns in a few words what it found, or raises OSError
    (the kernel refused) or Lacking (the result is not good enough). `stage` is one of the seven, or
    0 for the machine as a whole. `run` cannot work without a `needed` ability. `advice` says what
    to do if it fails.
    """

    name: str
    stage: int
    needed: bool
    attempt: Callable[[Workplace], str]
    advice: str


class AbilityReport(NamedTuple):
    """The result of one attempt: what it found, or why it failed and what to do."""

    name: str
    stage: int
    needed: bool
    works: bool
    found: str
    advice: str


def examine(abilities: tuple[Ability, ...], root: str, store: str) -> list[AbilityReport]:
    """Try every ability, in order; `root` is the directory that containers are kept in."""
    directory = existing(root)
    if not os.access(directory, os.W_OK):
        directory = tempfile.gettempdir()
    sweep(directory)
    scratch = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=directory)
    try:
        return [_examine(ability, Workplace(scratch, store)) for ability in abilities]
    finally:
        remove_tree(scratch)


def in_child(attempt: Callable[[], str]) -> tuple[bool, str]:
    """Call `attempt` in a copy of this process: (True, what it returned) or (False, the error).

    Behind the error there may be a second line: advice.
    Whatever it does to itself (namespaces, mounts, filters, limits) ends with it. One that takes
    more than 20 seconds is killed.
    """
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        _answer(attempt, theirs)
    os.close(theirs)
    try:
        ready, _, _ = select.select([ours], [], [], _SECONDS)
        answer = os.read(ours, _ANSWER_SIZE).decode(errors="replace") if ready else ""
    finally:
        os.close(ours)
        if not answer:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if not answer:
        if not ready:
            return False, f"no answer within {_SECONDS} s"
        ended = "was killed" if os.WIFSIGNALED(status) else "ended without an answer"
        return False, f"its process {ended}"
    return answer[0] == "+", answer[1:]


def result_of(attempt: Callable[[], str]) -> str:
    """Return what `attempt` returns in a copy of this process. Raises Lacking with its error."""
    works, text = in_child(attempt)
    if not works:
        raise Lacking(*text.split("\n", 1))
    return text


def _answer(attempt: Callable[[], str], pipe: int) -> None:
    """In the child: write + and the result, or - and the error, and end without any clean-up.

    If the parent has died before prctl, the pipe has no reader. Its pid tells nothing: in a new pid
    namespace getppid(2) is 0.
    """
    process.prctl(process.PR_SET_PDEATHSIG, signal.SIGKILL, why="an attempt ends with its doctor")
    poll = select.poll()
    poll.register(pipe, 0)  # errors are always told: POLLERR, no reader is left
    if poll.poll(0):
        os._exit(0)
    try:
        answer = f"+{attempt()}"
    except OSError as error:
        call = getattr(error, "call", "")
        text = [call, os.fsdecode(error.filename or ""), reason(error)]
        answer = "-" + ": ".join(part for part in text if part)
    except Lacking as error:
        answer = f"-{error}\n{error.advice}".rstrip("\n")
    except MinirunError as error:
        answer = f"-{error}\n{error.hint}".rstrip("\n")
    except BaseException as error:  # of whatever kind: the parent prints it
        answer = f"-{type(error).__name__}: {error}"
    os.write(pipe, answer.encode(errors="replace")[:_ANSWER_SIZE])
    os._exit(0)


def _examine(ability: Ability, place: Workplace) -> AbilityReport:
    works, found = in_child(lambda: ability.attempt(place))
    found, _, own = found.partition("\n")
    advice = "" if works else own or ability.advice
    return AbilityReport(ability.name, ability.stage, ability.needed, works, found, advice)


def existing(path: str) -> str:
    """Return the nearest directory above `path` that is there, or `path` itself."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def cgroup_name(place: Workplace) -> str:
    """Return the path of the cgroup for attempts at `place`; by it a later doctor finds it."""
    return "/minirun/" + os.path.basename(place.scratch).lstrip(".")


def sweep(directory: str) -> list[str]:
    """Remove what a doctor that was killed has left, its directory and its cgroup; return names."""
    found = []
    for name in os.listdir(directory):
        pid = name.removeprefix(_PREFIX).partition("-")[0]
        is_own = name.startswith(_PREFIX) and whole(pid) is not None
        if not is_own or os.path.exists(f"/proc/{pid}"):
            continue
        for version in ("v1", "v2"):
            try:
                group = cgroups.open_cgroup(cgroup_name(Workplace(name, "")), version)
                group.remove()
            except MinirunError:
                continue  # no such version here
        remove_tree(os.path.join(directory, name))
        found.append(name)
    return found
