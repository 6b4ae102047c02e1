"""Who is who in a start that was seen: the runtime, init, hooks, nvidia-container-cli, ldconfig.

What tells them apart is what they do, never what they are called, except NVIDIA's programs:

    init      is born into new namespaces, or by a process that has unshared them, and changes its
              root; it becomes the container's command
    runtime   the nearest maker of init that was executed by a path of its own
    nsexec    a process between the two that runs the same program again, by a descriptor
    exec      enters the namespaces of a container that is there, and becomes a command in it
    hook      gets the container's state, as JSON, from the runtime or from init
    cli       a hook, or what it made, once it works on the container's mounts (see rules.py)
    ldconfig  what that executes to renew the container's list of libraries
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from minirun.core.keeping import places, state
from minirun.faces.teach.observe.observed_messages import ObservedMessage
from minirun.faces.teach.observe.process_tree import Process, Program
from minirun.faces.teach.oracle.compare import LISTED, is_question
from minirun.faces.teach.strace import Call, flags, seen, string

_ROOTS = ("pivot_root", "chroot")
_INJECTORS = ("nvidia-container-runtime-hook", "nvidia-container-toolkit", "nvidia-container-cli")
_CLI = "nvidia-container-cli"
_LDCONFIG = ("ldconfig", "ldconfig.real")
_NODES, _FIFO = ("mknod", "mknodat"), f"/{places.EXEC}"
_NEW_ROOT = ("CLONE_NEWNS", "CLONE_NEWPID")
_NAMESPACES = {"mnt": "CLONE_NEWNS", "pid": "CLONE_NEWPID"}
"""What a descriptor of a namespace is called → what enters it."""


@dataclass(eq=False)
class ObservedStart:
    """The processes of one container's start."""

    processes: dict[int, Process]
    init: int
    """Its pid; 0: there is none."""
    runtime: int
    entrant: int = 0
    """The pid of an exec's command; 0 if a container was started."""
    id: str = ""
    """The container's id; "" if nothing tells it."""
    stages: bool = True
    """False if nothing of a start was seen: an exec, or a command on a container that exists."""
    resumed: bool = False
    """True if only the end was seen, by `start`: init waited already."""
    between: dict[int, str] = field(default_factory=dict)
    """pid of a process between runtime and init → "nsexec", or "runtime" (exec) for a copy."""
    starters: list[int] = field(default_factory=list)
    """Other processes of the runtime's that spoke to init: `start`."""
    hooks: dict[int, ObservedMessage] = field(default_factory=dict)
    """pid → the state that it was given."""
    tried: list[int] = field(default_factory=list)
    """Hooks that could not be executed, and so were given no state."""
    ask: list[ObservedMessage] = field(default_factory=list)
    answer: list[ObservedMessage] = field(default_factory=list)
    root: Call | None = None
    """Init's change of its root."""
    command: Call | None = None
    """The execve by which init becomes the container's command."""
    injector: int = 0
    """The hook that works on the container's mounts; 0 for none."""

    @property
    def maker(self) -> Process:
        """The runtime."""
        return self.processes[self.runtime]

    def ancestors(self, pid: int) -> Iterator[int]:
        """Yield the makers of a process, the nearest first."""
        return ancestors(self.processes, pid)

    def hook_of(self, pid: int) -> int:
        """Return the hook that a process is, or that made it; 0 if none did."""
        for each in (pid, *self.ancestors(pid)):
            if each in self.hooks or each in self.tried:
                return each
        return 0

    def has(self, pid: int) -> bool:
        """Return True if a process belongs to this start."""
        mine = (self.runtime, self.init, self.entrant, *self.starters)
        return pid in mine or any(each in mine for each in self.ancestors(pid))

    def first_work(self) -> float:
        """Return when the injector began to work on the container; 0.0 if it never did.

        That is when it executed nvidia-container-cli, or made its first call that makes something
        after it had its state. Its own birth's last calls come before that.
        """
        if not self.injector:
            return 0.0
        state = self.hooks[self.injector]
        times = [
            program.time
            for pid in (self.injector, *descendants(self.processes, self.injector))
            for program in self.processes[pid].programs
            if program.name == _CLI
        ]
        if not times:
            calls = self.processes[self.injector].calls
            times = [c.began for c in calls if c.began > (state.read or 0) and is_work(c)]
        return min(times, default=0.0)


def read(processes: dict[int, Process], messages: list[ObservedMessage]) -> list[ObservedStart]:
    """Return each start of a container, in their order."""
    found: list[ObservedStart] = []
    for init in _inits(processes, messages):
        runtime = _runtime(processes, init)
        if runtime and not any(start.has(init) and start.hook_of(init) for start in found):
            found.append(_fill(ObservedStart(processes, init, runtime), messages))
    return found or _entrant(processes)


def _entrant(processes: dict[int, Process]) -> list[ObservedStart]:
    """Return an exec as a start; nothing if no process entered a container."""
    for pid, process in processes.items():
        joined = next((call for call in process.calls if _joins(call)), None)
        runtime = _runtime(processes, pid) if joined else 0
        if joined and runtime:
            line = [pid, *(each for each in descendants(processes, pid))]
            became = (each for each in line if _executed(processes[each], joined.time))
            start = ObservedStart(processes, 0, runtime, next(became, line[-1]))
            start.command = _executed(processes[start.entrant], joined.time)
            start.stages = False
            _fill_between(start, start.entrant, "exec")
            start.id = _id(start, [])
            return [start]
    return []


def _joins(call: Call) -> frozenset[str]:
    """Return which namespaces a call enters, of those that make a container; setns(2).

    Its flags may be 0; then what the descriptor is tells it.
    """
    if call.name != "setns" or call.ret:
        return frozenset()
    kind = seen(call.args[0])[1].partition(":")[0]
    return flags(call.args[1]).intersection(_NEW_ROOT) | {_NAMESPACES.get(kind, "")} - {""}


def _executed(process: Process, since: float) -> Call | None:
    """Return the execve by which a process became a command after a moment."""
    began = [program.began for program in process.programs if program.by_path]
    return next(
        (c for c in process.calls if c.name == "execve" and c.began in began and c.began > since),
        None,
    )


def resumed(processes: dict[int, Process], waiting: dict[int, str]) -> list[ObservedStart]:
    """Return the casts of containers that were made before: `waiting` is pid of init → id."""
    found = []
    for pid, container_id in waiting.items():
        runtime = next((p for p, one in processes.items() if one.programs and p not in waiting), 0)
        if pid in processes and runtime:
            start = ObservedStart(processes, pid, runtime, id=container_id, resumed=True)
            start.command = _executed(processes[pid], 0.0)
            found.append(start)
    return found


def without_init(processes: dict[int, Process]) -> ObservedStart:
    """Return a start that ended before there was an init: the runtime alone."""
    runtime = next(
        (pid for pid, one in processes.items() if one.programs), next(iter(processes), 0)
    )
    start = ObservedStart(processes, 0, runtime)
    start.id = _id(start, [])
    return start


def ancestors(processes: dict[int, Process], pid: int) -> Iterator[int]:
    """Yield the makers of a process, the nearest first."""
    while (pid := processes[pid].maker if pid in processes else 0) in processes:
        yield pid


def descendants(processes: dict[int, Process], pid: int) -> Iterator[int]:
    """Yield all that a process made, and what those made."""
    for child in processes[pid].children:
        yield child
        yield from descendants(processes, child)


def is_work(call: Call) -> bool:
    """Return True for a call that makes a container what it is."""
    return call.name in LISTED and not is_question(call)


def _inits(processes: dict[int, Process], messages: list[ObservedMessage]) -> list[int]:
    """Return those that can be an init, in their order: those that change their root, if any do.

    A process that a hook made is no init: nvidia-container-cli gives ldconfig a root of its own.
    Hooks get the container's state.
    """
    told = {pid for message in messages for pid in _readers_of_state(processes, message)}
    born = [
        pid
        for pid, process in processes.items()
        if process.namespaces.intersection(_NEW_ROOT)
        and not any(each in told for each in ancestors(processes, pid))
        and pid not in told
    ]
    rooted = [pid for pid in born if _root(processes[pid])]
    if rooted:
        return rooted
    talkers = {message.sender for message in messages} | {m.receiver for m in messages}
    return [pid for pid in born if pid in talkers][:1]


def _root(process: Process) -> Call | None:
    """Return the call by which a process changes its root, before it executes anything."""
    for call in process.calls:
        moved = call.name == "mount" and "MS_MOVE" in call.args[3]
        if call.name in _ROOTS or moved:
            return call
        if call.name == "execve" and call.ret == 0 and process.namespaces:
            program = next((p for p in process.programs if p.time == call.time), None)
            if program and program.by_path:
                return None
    return None


def _runtime(processes: dict[int, Process], init: int) -> int:
    """Return the nearest maker that was executed by a path; 0 if strace saw none."""
    for pid in ancestors(processes, init):
        program = processes[pid].program(processes[init].born)
        if program and any(p.by_path for p in processes[pid].programs if p.time <= program.time):
            return pid
    return 0


def _fill(start: ObservedStart, messages: list[ObservedMessage]) -> ObservedStart:
    init = start.processes[start.init]
    _fill_between(start, start.init, "runtime")
    start.hooks = _hooks(start, messages)
    start.root, start.command = _root(init), _command(init)
    start.tried = [pid for pid in start.maker.children if _was_not_executed(start, pid)]
    ours = {start.runtime, *(pid for pid, actor in start.between.items() if actor == "runtime")}
    start.ask, start.answer = _exchange(start, messages, ours)
    end = start.command.time if start.command else float("inf")
    for message in messages:
        pair = {message.sender, message.receiver}
        if start.init in pair and message.call.began < end:
            start.starters += [
                pid for pid in pair - {start.init, 0, *ours, *start.between} - set(start.starters)
                if not start.hook_of(pid) and pid not in init.children
            ]  # fmt: skip
    start.injector = next((pid for pid in start.hooks if _injects(start, pid)), 0)
    start.id = _id(start, messages)
    return start


def _fill_between(start: ObservedStart, last: int, copy: str) -> None:
    """Name the processes between the runtime and `last`; `copy` is one that executed nothing."""
    again = False
    for pid in reversed([each for each in start.ancestors(last) if _below(start, each)]):
        again |= bool(start.processes[pid].programs)
        start.between[pid] = "nsexec" if again else copy


def _below(start: ObservedStart, pid: int) -> bool:
    return pid != start.runtime and start.runtime in start.ancestors(pid)


def _hooks(start: ObservedStart, messages: list[ObservedMessage]) -> dict[int, ObservedMessage]:
    """Return the processes to which the container's state was given."""
    found: dict[int, ObservedMessage] = {}
    for message in messages:
        if start.has(message.sender):
            found.update(
                (pid, message)
                for pid in _readers_of_state(start.processes, message)
                if pid not in found
            )
    return found


def _was_not_executed(start: ObservedStart, pid: int) -> bool:
    """Return True for a child that was to become a program once init lived, and could not."""
    process = start.processes[pid]
    tried = any(call.name == "execve" and call.errno for call in process.calls)
    late = process.born > start.processes[start.init].born
    return tried and late and not process.programs and pid not in start.hooks


def _readers_of_state(processes: dict[int, Process], message: ObservedMessage) -> list[int]:
    """Return the pids that got a container's state: they read it, or have its pipe as stdin."""
    if not message.is_state:
        return []
    children = processes[message.sender].children
    if message.receiver:  # perhaps a program that the hook runs
        line = {message.receiver, *ancestors(processes, message.receiver)}
        return [pid for pid in children if pid in line]
    return [pid for pid in children if message.channel in processes[pid].stdin]


def _command(init: Process) -> Call | None:
    """Return the execve by which init becomes the command; None if it does not."""
    root = _root(init)
    for call in init.calls:
        if root and call.time > root.time and call.name == "execve" and call.ret == 0:
            return call
    return None


def _exchange(
    start: ObservedStart, messages: list[ObservedMessage], ours: set[int]
) -> tuple[list[ObservedMessage], list[ObservedMessage]]:
    """Return init's question and the runtime's answer: both before init changes its root.

    If the runtime gave hooks the container's state, the question is what init said last before
    that. If it did not, the answer is what the runtime said last to init; a start that failed
    before that has neither.
    """
    end = start.root.began if start.root else float("inf")
    runs: list[list[ObservedMessage]] = []
    for message in messages:
        pair = {message.sender, message.receiver}
        if message.call.began < end and start.init in pair and pair & ours:
            if not runs or runs[-1][0].sender != message.sender:
                runs.append([])
            runs[-1].append(message)
    states = [state.call.time for state in start.hooks.values() if state.sender in ours]
    states += [start.processes[pid].born for pid in start.tried]
    for ask, answer in zip(reversed(runs), [[], *reversed(runs)], strict=False):
        if ask[0].sender != start.init:
            continue
        before = [one for one in ask if states and one.call.time < min(states)]
        if before:
            return before, answer if start.root else []
        if not states and answer and start.root:
            return ask, answer
    return [], []


def _injects(start: ObservedStart, pid: int) -> bool:
    """Return True if a hook is NVIDIA's, or enters init's mount namespace as NVIDIA's does."""
    for each in (pid, *descendants(start.processes, pid)):
        process = start.processes[each]
        if any(program.name in _INJECTORS for program in process.programs):
            return True
        if any("CLONE_NEWNS" in _joins(call) for call in process.calls):
            return True
    return False


def role(start: ObservedStart, pid: int, at: float) -> str:
    """Return the actor that a process is at a moment; its program's name for what is none."""
    process = start.processes[pid]
    program = process.program(at)
    if hook := start.hook_of(pid):
        if program and program.name in _LDCONFIG:
            return "ldconfig"
        work = start.first_work()
        return "cli" if hook == start.injector and work and at >= work else "hook"
    if pid == start.init:
        return "init"
    if pid == start.entrant:
        return "exec"
    if pid in start.between:
        return start.between[pid]
    if pid == start.runtime or pid in start.starters:
        return "runtime"
    if program and program.time > process.born and start.has(pid):
        return program.name if program.by_path else "nsexec"
    if start.has(pid):  # a copy of its maker
        return role(start, process.maker, process.born) if process.maker else "runtime"
    return program.name if program else _inherited(start.processes, pid)


def _inherited(processes: dict[int, Process], pid: int) -> str:
    for each in ancestors(processes, pid):
        if program := processes[each].program(processes[pid].born):
            return program.name
    return "unknown"


def _id(start: ObservedStart, messages: list[ObservedMessage]) -> str:
    """Return the container's id: of the state that a hook gets, of the folder of the FIFO that
    init waits at, of the folder of a file that is opened, or the runtime's last argument."""
    for message in messages:
        if message.is_state and message.sender in (start.runtime, start.init):
            return str(message.document["id"])
    for call in start.maker.calls if start.runtime else []:
        if call.name in _NODES and _FIFO in str(call):
            return (string(call.args[-2]) or "").split("/")[-2]
    program: Program | None = next(iter(start.maker.programs), None) if start.runtime else None
    words = program.argv if program else []
    if start.entrant:
        folders = [call.made.rpartition("/")[0].rpartition("/")[2] for call in start.maker.calls]
        typed = [each for each in folders if each in words[1:]]  # podman's exec has an id, too
        return next(iter(typed or filter(state.is_made_up, folders)), "")
    return words[-1] if len(words) > 2 and words[-2:-1] != ["--"] else ""


def text_of(call: Call) -> str:
    """Return what a write wrote, as far as strace has it."""
    try:
        return string(call.args[1]) or ""
    except (ValueError, IndexError):
        return ""
