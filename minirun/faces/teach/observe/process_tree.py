"""The processes that strace saw: which made which, what they executed, what they called.

Threads are put together with their process: clone(2), CLONE_THREAD.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from minirun.faces.teach.strace import Call, fields, flags, seen, string, strings

_CLONES = ("clone", "clone3", "fork", "vfork")
EXEC = ("execve", "execveat")
UNREADABLE = "?"
"""What stands for a path that is not known."""
_BY_DESCRIPTOR = ("/proc/self/", "/proc/thread-self/", "/dev/fd/", "/memfd:")
"""Begins of paths by which a program runs a copy of itself."""


@dataclass(frozen=True)
class Program:
    """What a process executed: when (from, to: epoch, seconds), which file, which arguments."""

    began: float
    time: float
    path: str
    argv: list[str]
    by_path: bool
    """False: by a descriptor, or through /proc/self, as a program does that runs itself again."""

    @property
    def name(self) -> str:
        """The name without folders: of the file, or as argv[0] has it."""
        path = self.path if self.by_path else (self.argv or [""])[0]
        return path.rstrip("/").rpartition("/")[2]


@dataclass
class Process:
    """One process."""

    pid: int
    """On the host."""
    maker: int = 0
    """The process that cloned it; 0: it was there before, or strace started it."""
    born: float = 0.0
    """When the clone was made: seconds since the epoch."""
    namespaces: frozenset[str] = frozenset()
    """CLONE_NEW… that it was born with: of its clone, or that its maker had unshared before."""
    calls: list[Call] = field(default_factory=list)
    """Those of its threads too, as they were finished."""
    programs: list[Program] = field(default_factory=list)
    children: list[int] = field(default_factory=list)
    stdin: set[str] = field(default_factory=set)
    """The pipes that it read, or had as its standard input."""

    def program(self, at: float) -> Program | None:
        """Return what it had executed last at a moment."""
        done = [program for program in self.programs if program.time <= at]
        return done[-1] if done else None


def read(calls: Iterable[Call]) -> dict[int, Process]:
    """Return pid → process, in the order in which they were born."""
    calls = list(calls)
    leader = _leaders(calls)
    found: dict[int, Process] = {}
    unshared: dict[int, set[str]] = {}
    for call in calls:
        pid = leader.get(call.pid, call.pid)
        process = found.setdefault(pid, Process(pid))
        process.calls.append(call)
        if call.name == "unshare" and call.ret == 0:
            unshared.setdefault(pid, set()).update(flags(call.args[0]))
        elif call.name in _CLONES and call.child and leader.get(call.child) != pid:
            new = _flags(call) | unshared.get(pid, set())
            child = found.setdefault(call.child, Process(call.child))
            child.maker, child.born = pid, call.began
            child.namespaces = frozenset(name for name in new if name.startswith("CLONE_NEW"))
            process.children.append(call.child)
        elif call.name in EXEC and call.ret == 0:
            process.programs.append(program_of(call))
        elif _is_stdin(call):
            process.stdin.add(seen(call.args[0])[1])
    return dict(sorted(found.items(), key=lambda item: item[1].born))


def program_of(call: Call) -> Program:
    """Return what an execve executes; UNREADABLE for a path that strace may not read."""
    at = 1 if call.name == "execveat" else 0
    try:
        path, argv = string(call.args[at]) or "", strings(call.args[at + 1])
    except ValueError:  # the process is not dumpable, and strace has no CAP_SYS_PTRACE
        path, argv = UNREADABLE, [UNREADABLE]
    if at:
        return Program(call.began, call.time, path or seen(call.args[0])[1], argv, by_path=False)
    by_path = not path.startswith(_BY_DESCRIPTOR)
    return Program(call.began, call.time, path, argv, by_path=by_path)


def _is_stdin(call: Call) -> bool:
    """Return True if a call reads, or makes something the standard input."""
    if call.name in ("dup2", "dup3"):
        return call.args[1].partition("<")[0] == "0"
    return call.name == "read" and bool(call.ret)


def _flags(call: Call) -> frozenset[str]:
    """The flags of a clone."""
    if call.name == "clone3":
        return flags(fields(call.args[0].split(" => {")[0]).get("flags", "0"))
    return flags(fields("{" + ", ".join(call.args) + "}").get("flags", "0"))


def is_thread(call: Call) -> bool:
    """Return True if a clone made a thread, or failed to."""
    return call.name in ("clone", "clone3") and "CLONE_THREAD" in _flags(call)


def _leaders(calls: list[Call]) -> dict[int, int]:
    """Return thread → process. A thread may make threads before its own birth is told."""
    made = {call.child: call.pid for call in calls if call.child and is_thread(call)}
    found = {}
    for thread in made:
        pid = thread
        while pid in made:
            pid = made[pid]
        found[thread] = pid
    return found
