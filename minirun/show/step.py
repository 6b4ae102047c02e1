"""`run --step`: hold the run before and after each stage, or after each event, and look.

A process of its own, forked before the run begins, as the live view is. It follows the log; if
that says that a process waits at a gate (minirun.core.gates), the kernel objects stay as they are
until it opens the gate. What it shows it reads from the kernel at that moment, from outside. At
each boundary it writes a snapshot into the log, so that `b`, `minirun diff` and the pages can show
it later; with --snapshots alone that is all it does.
"""

import os
import subprocess
import sys

import minirun
from minirun.core import events, gates, places
from minirun.core.settings import BOUNDARIES, Settings
from minirun.inspect import snapshot
from minirun.inspect import text as anatomy_text
from minirun.knowledge import language
from minirun.running import existing
from minirun.show import keys, paint, text
from minirun.show.event import Event, Tail
from minirun.show.narrate import Narrator
from minirun.show.order import OPENED, Births

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.show.viewers import ViewOptions

_OUT = 2
"""The descriptor that it writes to: standard error."""
_RULE = 78
_PROMPT = "[n]ext [c]ontinue [i]nspect [s]hell [b]ack [?]why [q]uit [h]elp\n"
_SIGINT = 2
_PATIENCE = 10.0
"""Seconds that the runtime gets to clean up."""
_TICK = 0.005
"""Seconds between two looks at the log."""


class Stepper:
    """The one who holds the gates of a container's start, and lets them open one by one."""

    def __init__(
        self, settings: Settings, container_id: str, options: "ViewOptions", runtime_pipe: int
    ) -> None:
        self.settings = settings
        self.id = container_id
        self.directory = f"{settings.root}/{container_id}"
        self.options = options
        self.chooser: keys.TerminalKeys | keys.Script | None = None
        """Who says how it goes on; None if only snapshots are wanted."""
        if options.script:
            self.chooser = keys.Script(keys.read_script(options.script), runtime_pipe)
        elif options.step:
            self.chooser = keys.TerminalKeys(0, runtime_pipe)
        self.runtime_pipe = runtime_pipe
        self.runtime = os.getppid()
        self.pids: dict[str, int] = {"runtime": self.runtime}
        self.taken: list[snapshot.Snapshot] = []
        self.last: Event | None = None
        """The event before the gate."""
        self.running_on = self.chooser is None

    def follow(self) -> None:
        """Do it until stage 7's end, or until the run has ended. Never raises for its end."""
        level = "syscalls" if self.options.step == gates.EVERY_EVENT else "stages"
        narrator, births = Narrator(level), Births()
        tail = Tail(f"{self.directory}/{places.EVENTS}")
        painted = paint.painter(_OUT, self.options.style)
        try:
            while not (narrator.over and self.taken and self.taken[-1]["at"] == BOUNDARIES[-1]):
                ended = _tick(self.runtime_pipe)
                found = births.take(tail.events(), last=ended)
                narrator.init = births.init
                for event in found:
                    rows = narrator.rows(event)
                    if rows and self.options.show:
                        self._write(painted(rows))
                    self._see(event)
                if ended:
                    break
        except keys.RunEnded:
            pass
        finally:
            tail.close()

    def _see(self, event: Event) -> None:
        """Remember who is who; stop at a gate."""
        if not events.log_fds():
            events.open_log(f"{self.directory}/{places.EVENTS}", self.id)
            if self.settings.log and self.settings.log_format == "json":
                events.open_log(self.settings.log, self.id, 0o644)
            events.become("step", os.getpid())
        actor = event.actor
        if actor in ("init", "hook", "cli") and event.pid:
            self.pids["init" if actor == "init" else "hook"] = event.pid
        if event.kind != "gate":
            if actor != "step":
                self.last = event
            return
        self._stop(event)
        events.emit("note", OPENED, {"gate": event.name}, why="the process at the gate goes on")
        gates.open_gate(self.directory)

    def _stop(self, gate: Event) -> None:
        """Take a snapshot at a boundary; then ask how to go on, until it is to go on."""
        at = gate.name
        container = existing.load(self.settings, self.id)  # init and cgroup come in stage 1
        now = snapshot.take(container, at, self.pids)
        if at in BOUNDARIES:
            self.taken.append(now)
            events.emit("note", "snapshot", dict(now), why="the container as it is at this moment")
        if self.running_on or self.chooser is None:
            return
        self._say(self._heading(gate))
        back = 0
        while True:
            key = self.chooser.next()
            back = back + 1 if key.name == "back" else 0
            if key.name in ("next", "continue"):
                self.running_on = key.name == "continue"
                return
            if key.name == "quit":
                self._say("giving up: the runtime cleans up\n")
                os.kill(self.runtime, _SIGINT)
                keys.wait([], self.runtime_pipe, _PATIENCE)  # until RunEnded; the gate stays shut
                return
            self._answer(key, gate, now, back)

    def _answer(self, key: keys.Key, gate: Event, now: snapshot.Snapshot, back: int) -> None:
        if key.name == "inspect":
            self._say(anatomy_text.page(now, paint.width(_OUT)))
        elif key.name == "back":
            self._say(self._recorded(back, gate.name))
        elif key.name == "why":
            spoken = language.choose(self.settings.lang)
            self._say(anatomy_text.why(gate, self.last, spoken, paint.width(_OUT)))
        elif key.name == "shell":
            self._shell(key.argument)
        else:
            self._say(keys.HELP)
        if key.name != "help":
            self._say(_PROMPT)

    def _recorded(self, back: int, at: str) -> str:
        """Return the snapshot of an earlier stop, and that it is one."""
        earlier = [taken for taken in self.taken if taken["at"] != at]
        if not earlier:
            return "there is no stop before this one\n"
        shown = earlier[max(0, len(earlier) - back)]
        head = f"RECORDED at {shown['at']}: a snapshot; the container has moved on since\n"
        return head + anatomy_text.page(shown, paint.width(_OUT))

    def _shell(self, command: str) -> None:
        """Run a shell, or a command, in the container as it stands now."""
        if "init" not in self.pids:
            return self._say("there is no init yet, and so no container to look into\n")
        words = ["sh", "-c", command] if command else ["sh"]
        terminal = ["-it"] if not command and os.isatty(0) else ["-i"]
        argv = [*self_command(self.settings), "exec", *terminal, self.id, *words]
        if not command:
            self._say("a shell in the half-built container; exit leads back\n")
        subprocess.run(argv, check=False, stdin=None if not command else subprocess.DEVNULL)
        return None

    def _heading(self, gate: Event) -> str:
        name = gate.name
        if name == gates.EVERY_EVENT:
            what = f"after {gate.args.get('after', '')}, stage {gate.stage}"
        else:
            number, edge = name.split(":")
            when = "before" if edge == "begin" else "after"
            what = f"{when} stage {number}: {text.STAGES[int(number)]}"
        unicode = paint.speaks_unicode()
        dash = "─" if unicode else "-"
        head = text.clean(f"{dash * 2} {what} ", unicode)
        return head.ljust(_RULE, dash) + "\n" + _PROMPT

    def _say(self, message: str) -> None:
        end = "\r\n" if os.isatty(_OUT) else "\n"
        self._write(message.replace("\n", end))

    def _write(self, message: str) -> None:
        data = message.encode(errors="backslashreplace")
        while data:
            data = data[os.write(_OUT, data) :]


def _tick(runtime_pipe: int) -> bool:
    """Wait a moment; True if the run has ended."""
    try:
        keys.wait([], runtime_pipe, _TICK)
    except keys.RunEnded:
        return True
    return False


def self_command(settings: Settings) -> list[str]:
    """Return the command line that starts this program again, with the same places."""
    source = os.path.dirname(os.path.dirname(minirun.__file__))  # pip -e leaves it out of sys.path
    path = [source, *sys.path]
    start = f"import sys; sys.path[:0] = {path!r}; from minirun.__main__ import start; start()"
    return [
        sys.executable, "-ISc", start, "--root", settings.root, "--store", settings.store,
        "--cgroup", settings.cgroup_version,
    ]  # fmt: skip


def run(settings: Settings, container_id: str, options: "ViewOptions", pipe: int) -> None:
    """Be the stepper of a container, in a process of its own; open every gate at the end."""
    stepper = Stepper(settings, container_id, options, pipe)
    try:
        stepper.follow()
    except Exception as error:  # whatever it is: the run goes on, and the user hears of it
        text_of = f"{type(error).__name__}: {error}"
        os.write(2, f"minirun: --step ends here: {text.clean(text_of)}\n".encode())
