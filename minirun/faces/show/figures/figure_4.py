"""Figure 3 in 2026: who does what in a start whose GPUs come by CDI.

    the engine            the runtime, and init          hooks
    nvidia.com/gpu=0 …  → 1 nodes, mounts, rules
                          2, 3, 6 asks; there are none
                          4, 5    nothing to do
                          7 runs them, one by one      → create-symlinks  14ms
                            pivot_root, exec             update-ldcache   20ms

Three columns: what is there before stage 1, the stages, and the hooks that are left. All of it is
counted in the log.
"""

import os

from minirun.core.errors import StateError
from minirun.faces.knowledge.texts import Phrases
from minirun.faces.show.figures import figure_3
from minirun.faces.show.log import milestones
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.event_row import clean, duration
from minirun.faces.show.log.recording import Recording

_COLUMNS = (0, 330, 690)
_TOP, _ROW, _GAP = 34, 18, 16
"""Where the first band begins; the height of a line, and of what is between two bands."""
_WIDE = 250
_HOOK = "nvidia-cdi-hook"
_BOLD, _FAINT = 'font-weight="700"', 'opacity=".6"'


def document(recordings: list[Recording], language: str = "en") -> str:
    """Return the figure of the first recording, as an SVG file.

    Raises StateError if its GPUs did not come by CDI.
    """
    recording = recordings[0].unheld
    note = next((e for e in recording.events if e.name == "CDI" and e.kind == "note"), None)
    if note is None:
        raise StateError("the GPUs of this recording did not come by CDI", "replay cdi")
    return _Columned(recording, note, Phrases(language)).draw()


class _Columned:
    """The pieces of the picture; `y` is where the next band begins."""

    def __init__(self, recording: Recording, note: Event, say: Phrases) -> None:
        self.recording, self.note, self.say = recording, note, say
        self.y: float = _TOP
        self.parts: list[str] = []

    def draw(self) -> str:
        say, count = self.say, self.note.args
        heads = (say("the engine"), say("the runtime, and init"), say("the hooks that are left"))
        for x, head in zip(_COLUMNS, heads, strict=True):
            self.parts.append(figure_3.words(x, 14, head, _BOLD))
        names = list(map(clean, self.note.words("devices")))
        counted = [clean(str(count.get(name, 0))) for name in ("nodes", "mounts", "hooks")]
        parts = say("config.json: {} nodes, {} mounts, {} hooks", *counted)
        top = self.y
        self._box(0, [*names, parts], top)
        mounts = say("{} mounts, {} of them for the GPUs", self._mounts(), counted[1])
        self._stage("1", [*self._nodes(), mounts], top)
        self._arrow(_COLUMNS[0] + _WIDE, _COLUMNS[1] - 26, top + _ROW)
        self._stage("2, 3, 6", [say("asks for prestart hooks; there are none")], self.y)
        self._stage("4, 5", [say("nothing to do")], self.y, _FAINT)
        self._stage_7()
        title = say("Figure 3 in 2026: {} by CDI", ", ".join(names))
        title += ". SIMULATED." if self.recording.simulated else "."
        return figure_3.sheet(title, self.y, "".join(self.parts))

    def _stage_7(self) -> None:
        top, ran = self.y, self._hooks()
        lines = [self.say("runs the createContainer hooks, one by one")]
        lines += ["", "pivot_root", self._command()]
        self._box(2, [f"{name} · {took}" for name, took in ran], top)
        below = self.y
        self._stage("7", lines, top)
        self._arrow(_COLUMNS[1], _COLUMNS[2] - 8, top + 2 * _ROW)
        self.y = max(self.y, below)

    def _stage(self, number: str, lines: list[str], top: float, more: str = "") -> None:
        took = self._took(number)
        shown = [f"{lines[0]} · {took}" if took else lines[0], *lines[1:]]
        x = _COLUMNS[1] - 12
        anchor = f'text-anchor="end" {_BOLD} {more}'
        self.parts.append(figure_3.words(x, top + _ROW, number, anchor))
        self._box(1, shown, top, more)

    def _box(self, column: int, lines: list[str], top: float, more: str = "") -> None:
        """Draw lines in a column, with a bar on their left, and go on below them."""
        x, height = _COLUMNS[column], len(lines) * _ROW
        bar = f'<path d="M{x - 6} {top + 4}v{height}" stroke="currentColor" stroke-opacity=".5"/>'
        self.parts.append(bar)
        for at, line in enumerate(lines, 1):
            self.parts.append(figure_3.words(x, top + at * _ROW, line, more))
        self.y = max(self.y, top + height + _GAP)

    def _arrow(self, start: float, end: float, y: float) -> None:
        self.parts.append(
            f'<path d="M{start} {y - 4}H{end}" stroke="currentColor"/>'
            f'<path d="M{end} {y - 4}l-7 -3.5v7z"/>'
        )

    def _took(self, number: str) -> str:
        """Return how long a stage took; of several nothing is said."""
        stages = [s for s in self.recording.stages if str(s.number) == number]
        return figure_3.took(self.recording, stages[0], self.say) if stages else ""

    def _of_stage_1(self) -> list[Event]:
        return [e for e in self.recording.events if e.stage == 1 and not e.failed]

    def _nodes(self) -> list[str]:
        """Say how many nodes of the driver init makes, and how many rules the cgroup has of them.

        On version 2 the rules are in a program, and are not counted.
        """
        calls = [(e.args.get("path"), e.args) for e in self._of_stage_1() if e.name == "mknodat"]
        own = {str(path): args for path, args in calls if str(path).startswith("/dev/nvidia")}
        names = ", ".join([*map(os.path.basename, own)][:2])
        numbers = {f"c {args.get('major')}:{args.get('minor')} " for args in own.values()}
        written = [str(e.args.get("data")) for e in self._of_stage_1() if e.name == "write"]
        rules = sum(text.startswith(tuple(numbers)) for text in written)
        lines = [self.say("init makes {} nodes: {}, …", len(own), clean(names))]
        return lines + ([self.say("{} rules for them in the cgroup", rules)] if rules else [])

    def _mounts(self) -> int:
        return sum(milestones.member_of(e)[0] == "mount" for e in self._of_stage_1())

    def _hooks(self) -> list[tuple[str, str]]:
        """Return the hooks that ran in stage 7: name, and how long each took."""
        found: list[tuple[str, int, int]] = []
        for event in (e for e in self.recording.events if e.stage == 7):
            words = event.words()
            if event.kind == "exec" and event.actor == "hook":
                name = words[words.index(_HOOK) + 1] if _HOOK in words[:-1] else " ".join(words)
                found.append((clean(name)[:40], event.t, event.t))
            elif event.name == "hook ended" and found:
                found[-1] = (*found[-1][:2], event.t)
        return [(name, duration(end - begin)) for name, begin, end in found]

    def _command(self) -> str:
        found = [e for e in self.recording.events if e.kind == "exec" and e.actor == "init"]
        return clean(" ".join(["exec", *found[-1].words()] if found else ["exec"]))[:44]
