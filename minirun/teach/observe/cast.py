"""Who is who in a start that was seen: the runtime, init, hooks, nvidia-container-cli, ldconfig.

What tells them apart is what they do, never what they are called, but for NVIDIA's programs:

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

from minirun.core.keeping import places
from minirun.teach.observe.family import Process, Program
from minirun.teach.observe.talk import ObservedMessage
from minirun.teach.oracle.compare import LISTED, is_question
from minirun.teach.strace import Call, flags, seen, string

_ROOTS = ("pivot_root", "chroot")
_INJECTORS = ("nvidia-container-runtime-hook", "nvidia-container-toolkit", "nvidia-container-cli")
_CLI = "nvidia-container-cli"
_LDCONFIG = ("ldconfig", "ldconfig.real")
_NODES, _FIFO = ("mknod", "mknodat"), f"/{places.EXEC}"
_NEW_ROOT = ("CLONE_NEWNS", "CLONE_NEWPID")
_NAMESPACES = {"mnt": "CLONE_NEWNS", "pid": "CLONE_NEWPID"}
"""What a descriptor of a namespace is called → what enters it."""


@dataclass(eq=False)
class Cast:
    """The processes of one container's start."""

    family: dict[int, Process]
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
        return self.family[self.runtime]

    def ancestors(self, pid: int) -> Iterator[int]:
        """Yield the makers of a process, the nearest first."""
        return ancestors(self.family, pid)

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
            for pid in (self.injector, *descendants(self.family, self.injector))
            for program in self.family[pid].programs
            if program.name == _CLI
        ]
        if not times:
            calls = self.family[self.injector].calls
            times = [c.began for c in calls if c.began > (state.read or 0) and is_work(c)]
        return min(times, default=0.0)


def read(family: dict[int, Process], messages: list[ObservedMessage]) -> list[Cast]:
    """Return a cast for each container that was started, in their order."""
    found: list[Cast] = []
    for init in _inits(family, messages):
        runtime = _runtime(family, init)
        if runtime and not any(cast.has(init) and cast.hook_of(init) for cast in found):
            found.append(_fill(Cast(family, init, runtime), messages))
    return found or _entrant(family)


def _entrant(family: dict[int, Process]) -> list[Cast]:
    """Return the cast of an exec; nothing if no process entered a container."""
    for pid, process in family.items():
        joined = next((call for call in process.calls if _joins(call)), None)
        runtime = _runtime(family, pid) if joined else 0
        if joined and runtime:
            line = [pid, *(each for each in descendants(family, pid))]
            became = (each for each in line if _executed(family[each], joined.time))
            cast = Cast(family, 0, runtime, next(became, line[-1]))
            cast.command = _executed(family[cast.entrant], joined.time)
            cast.stages = False
            _fill_between(cast, cast.entrant, "exec")
            cast.id = _id(cast, [])
            return [cast]
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


def resumed(family: dict[int, Process], waiting: dict[int, str]) -> list[Cast]:
    """Return the casts of containers that were made before: `waiting` is pid of init → id."""
    found = []
    for pid, container_id in waiting.items():
        runtime = next((p for p, one in family.items() if one.programs and p not in waiting), 0)
        if pid in family and runtime:
            cast = Cast(family, pid, runtime, id=container_id, resumed=True)
            cast.command = _executed(family[pid], 0.0)
            found.append(cast)
    return found


def unborn(family: dict[int, Process]) -> Cast:
    """Return the cast of a start that ended before there was an init: the runtime alone."""
    runtime = next((pid for pid, one in family.items() if one.programs), next(iter(family), 0))
    cast = Cast(family, 0, runtime)
    cast.id = _id(cast, [])
    return cast


def ancestors(family: dict[int, Process], pid: int) -> Iterator[int]:
    """Yield the makers of a process, the nearest first."""
    while (pid := family[pid].maker if pid in family else 0) in family:
        yield pid


def descendants(family: dict[int, Process], pid: int) -> Iterator[int]:
    """Yield all that a process made, and what those made."""
    for child in family[pid].children:
        yield child
        yield from descendants(family, child)


def is_work(call: Call) -> bool:
    """Return True for a call that makes a container what it is."""
    return call.name in LISTED and not is_question(call)


def _inits(family: dict[int, Process], messages: list[ObservedMessage]) -> list[int]:
    """Return those that can be an init, in their order: those that change their root, if any do.

    What a hook made is none: nvidia-container-cli gives ldconfig a root of its own. Hooks get the
    container's state.
    """
    told = {pid for message in messages for pid in _told(family, message)}
    born = [
        pid
        for pid, process in family.items()
        if process.namespaces.intersection(_NEW_ROOT)
        and not any(each in told for each in ancestors(family, pid))
        and pid not in told
    ]
    rooted = [pid for pid in born if _root(family[pid])]
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


def _runtime(family: dict[int, Process], init: int) -> int:
    """Return the nearest maker that was executed by a path; 0 if strace saw none."""
    for pid in ancestors(family, init):
        program = family[pid].program(family[init].born)
        if program and any(p.by_path for p in family[pid].programs if p.time <= program.time):
            return pid
    return 0


def _fill(cast: Cast, messages: list[ObservedMessage]) -> Cast:
    init = cast.family[cast.init]
    _fill_between(cast, cast.init, "runtime")
    cast.hooks = _hooks(cast, messages)
    cast.root, cast.command = _root(init), _command(init)
    cast.tried = [pid for pid in cast.maker.children if _was_not_executed(cast, pid)]
    ours = {cast.runtime, *(pid for pid, actor in cast.between.items() if actor == "runtime")}
    cast.ask, cast.answer = _exchange(cast, messages, ours)
    end = cast.command.time if cast.command else float("inf")
    for message in messages:
        pair = {message.sender, message.receiver}
        if cast.init in pair and message.call.began < end:
            cast.starters += [
                pid for pid in pair - {cast.init, 0, *ours, *cast.between} - set(cast.starters)
                if not cast.hook_of(pid) and pid not in init.children
            ]  # fmt: skip
    cast.injector = next((pid for pid in cast.hooks if _injects(cast, pid)), 0)
    cast.id = _id(cast, messages)
    return cast


def _fill_between(cast: Cast, last: int, copy: str) -> None:
    """Name the processes between the runtime and `last`; `copy` is one that executed nothing."""
    again = False
    for pid in reversed([each for each in cast.ancestors(last) if _below(cast, each)]):
        again |= bool(cast.family[pid].programs)
        cast.between[pid] = "nsexec" if again else copy


def _below(cast: Cast, pid: int) -> bool:
    return pid != cast.runtime and cast.runtime in cast.ancestors(pid)


def _hooks(cast: Cast, messages: list[ObservedMessage]) -> dict[int, ObservedMessage]:
    """Return the processes to which the container's state was given."""
    found: dict[int, ObservedMessage] = {}
    for message in messages:
        if cast.has(message.sender):
            found.update((pid, message) for pid in _told(cast.family, message) if pid not in found)
    return found


def _was_not_executed(cast: Cast, pid: int) -> bool:
    """Return True for a child that was to become a program once init lived, and could not."""
    process = cast.family[pid]
    tried = any(call.name == "execve" and call.errno for call in process.calls)
    late = process.born > cast.family[cast.init].born
    return tried and late and not process.programs and pid not in cast.hooks


def _told(family: dict[int, Process], message: ObservedMessage) -> list[int]:
    """Return to whom a maker gave a container's state: who read it, or has its pipe as stdin."""
    if not message.is_state:
        return []
    children = family[message.sender].children
    if message.receiver:  # perhaps a program that the hook runs
        line = {message.receiver, *ancestors(family, message.receiver)}
        return [pid for pid in children if pid in line]
    return [pid for pid in children if message.channel in family[pid].stdin]


def _command(init: Process) -> Call | None:
    """Return the execve by which init becomes the command; None if it does not."""
    root = _root(init)
    for call in init.calls:
        if root and call.time > root.time and call.name == "execve" and call.ret == 0:
            return call
    return None


def _exchange(
    cast: Cast, messages: list[ObservedMessage], ours: set[int]
) -> tuple[list[ObservedMessage], list[ObservedMessage]]:
    """Return init's question and the runtime's answer: both before init changes its root.

    If the runtime gave hooks the container's state, the question is what init said last before
    that. If it did not, the answer is what the runtime said last to init; a start that failed
    before that has neither.
    """
    end = cast.root.began if cast.root else float("inf")
    runs: list[list[ObservedMessage]] = []
    for message in messages:
        pair = {message.sender, message.receiver}
        if message.call.began < end and cast.init in pair and pair & ours:
            if not runs or runs[-1][0].sender != message.sender:
                runs.append([])
            runs[-1].append(message)
    states = [state.call.time for state in cast.hooks.values() if state.sender in ours]
    states += [cast.family[pid].born for pid in cast.tried]
    for ask, answer in zip(reversed(runs), [[], *reversed(runs)], strict=False):
        if ask[0].sender != cast.init:
            continue
        before = [one for one in ask if states and one.call.time < min(states)]
        if before:
            return before, answer if cast.root else []
        if not states and answer and cast.root:
            return ask, answer
    return [], []


def _injects(cast: Cast, pid: int) -> bool:
    """Return True if a hook is NVIDIA's, or enters init's mount namespace as NVIDIA's does."""
    for each in (pid, *descendants(cast.family, pid)):
        process = cast.family[each]
        if any(program.name in _INJECTORS for program in process.programs):
            return True
        if any("CLONE_NEWNS" in _joins(call) for call in process.calls):
            return True
    return False


def role(cast: Cast, pid: int, at: float) -> str:
    """Return the actor that a process is at a moment; its program's name for what is none."""
    process = cast.family[pid]
    program = process.program(at)
    if hook := cast.hook_of(pid):
        if program and program.name in _LDCONFIG:
            return "ldconfig"
        work = cast.first_work()
        return "cli" if hook == cast.injector and work and at >= work else "hook"
    if pid == cast.init:
        return "init"
    if pid == cast.entrant:
        return "exec"
    if pid in cast.between:
        return cast.between[pid]
    if pid == cast.runtime or pid in cast.starters:
        return "runtime"
    if program and program.time > process.born and cast.has(pid):
        return program.name if program.by_path else "nsexec"
    if cast.has(pid):  # a copy of its maker
        return role(cast, process.maker, process.born) if process.maker else "runtime"
    return program.name if program else _inherited(cast.family, pid)


def _inherited(family: dict[int, Process], pid: int) -> str:
    for each in ancestors(family, pid):
        if program := family[each].program(family[pid].born):
            return program.name
    return "unknown"


def _id(cast: Cast, messages: list[ObservedMessage]) -> str:
    """Return the container's id: of the state that a hook gets, of the folder of the FIFO that
    init waits at, of the folder of a file that is opened, or the runtime's last argument."""
    for message in messages:
        if message.is_state and message.sender in (cast.runtime, cast.init):
            return str(message.document["id"])
    for call in cast.maker.calls if cast.runtime else []:
        if call.name in _NODES and _FIFO in str(call):
            return (string(call.args[-2]) or "").split("/")[-2]
    program: Program | None = next(iter(cast.maker.programs), None) if cast.runtime else None
    words = program.argv if program else []
    if cast.entrant:
        folders = (call.made.rpartition("/")[0].rpartition("/")[2] for call in cast.maker.calls)
        return next((folder for folder in folders if folder in words[1:]), "")
    return words[-1] if len(words) > 2 and words[-2:-1] != ["--"] else ""


def text_of(call: Call) -> str:
    """Return what a write wrote, as far as strace has it."""
    try:
        return string(call.args[1]) or ""
    except (ValueError, IndexError):
        return ""
