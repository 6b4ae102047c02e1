"""Each stage as one line: what it did, in a few words. Seven lines fit beside a command's output.

    1 runtime  7 new namespaces, overlay of 1 layer, 16 mounts, 6 devices      26.1ms
    2 init     asks for the prestart hooks to be run                             14µs
    5 cli      2 GPUs SIMULATED: 5 nodes, 11 libraries, 6 programs, 5 rules     45.5ms

A stage that a start does not have (4 and 5, if there is no GPU to put in) has its line too.
"""

from __future__ import annotations

from minirun.common import screen
from minirun.faces.show.log import event_row, milestones

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.show.log.event import Event

_ACTORS = {1: "runtime", 2: "init", 3: "runtime", 4: "hook", 5: "cli", 6: "runtime", 7: "init"}
_FIXED = {
    2: "asks for the prestart hooks to be run",
    6: "hooks done",
}
_TOLD = {
    1: ("namespaces", "overlay", "mount", "device"),
    4: ("exec",),
    5: ("node", "library", "program", "rule", "bpf"),
    7: ("root", "capset", "exec"),
}
"""What a line tells, by stage and in this order: facts, and groups of show.log.milestones."""
_GPUS = 5
"""The stage that puts GPUs in."""
_WORDS = {"rule": ("rule", "rules")}
"""Where there is no room for the group's own words."""


class Summary:
    """Gathers what each stage did, and tells it when the stage has ended."""

    def __init__(self) -> None:
        self.counts: dict[tuple[int, str], int] = {}
        """Stage and group → how many."""
        self.facts: dict[tuple[int, str], str] = {}
        """Stage and what is to be told of it besides."""
        self.simulated = False
        self.given: set[str] = set()
        """The GPUs whose nodes stage 1 has made."""
        self.told: set[int] = set()
        """Stages that have their line."""

    def take(self, event: Event, *, birth: bool) -> None:
        """Learn from the next event. `birth`: it is init's."""
        stage, name, args = event.stage, event.name, event.args
        group, _ = milestones.member_of(event)
        if group:
            self.counts[stage, group] = self.counts.get((stage, group), 0) + 1
        self.simulated |= event_row.simulated(event)
        if stage == 1 and (number := milestones.gpu_of(event)):
            self.given.add(number)
        if birth:
            count = len(milestones.new_namespaces(event))
            self.facts[stage, "namespaces"] = f"{count} new namespaces" if count else ""
        elif layers := milestones.layers_of(event):
            self.facts[stage, "overlay"] = f"overlay of {layers}"
        elif left := milestones.capabilities_left(event):
            self.facts[stage, "capset"] = left
        elif name == "bpf" and args.get("cmd") == "BPF_PROG_ATTACH":
            self.facts[stage, "bpf"] = "eBPF rules"
        elif stage == 3 and event.kind == "message" and args.get("to") == "hook":
            self.counts[stage, "hook"] = self.counts.get((stage, "hook"), 0) + 1
        elif stage == 4 and name == "nvidia-container-cli":
            self.facts[stage, "exec"] = " ".join([name, *filter(_is_telling, event.words())])
        elif name == "CDI":
            self.facts[stage, "cdi"] = "(CDI)"
        elif stage == 7 and event.kind == "exec":
            self.facts[stage, "exec"] = " ".join(["exec", *event.words()])
        elif stage == 7 and name == "pivot_root":
            self.facts[stage, "root"] = "pivot_root"

    def lines(self, event: Event, took: str) -> list[event_row.Row]:
        """Return the lines that an event completes: its stage's end, and stages left out before.

        `took`: how long the stage took, as it is shown.
        """
        number = event.stage
        if event.kind != "end" or number not in _ACTORS or number in self.told:
            return []
        missing = [one for one in range(1, number) if one not in self.told]
        self.told.update((*missing, number))
        what = f"failed: {event.args.get('error', '')}" if event.ret else self._what(number)
        rows = [_row(one, _ACTORS[one], self._nothing(one), "ok", "") for one in missing]
        return [*rows, _row(number, event.actor, what, "FAILED" if event.ret else "ok", took)]

    def _nothing(self, stage: int) -> str:
        """Say why a stage has nothing to do: GPUs that config.json has are there by stage 1."""
        if stage != _GPUS or not self.given:
            return "nothing to do"
        by = self.facts.get((0, "cdi"), "(config.json)")
        return f"nothing to do: {self._counted(len(self.given))} came in stage 1 {by}"

    def _what(self, stage: int) -> str:
        if stage in _FIXED:
            return _FIXED[stage]
        if stage == 3:
            hooks = self.counts.get((3, "hook"), 0)
            return (
                _count(hooks, ("prestart hook", "prestart hooks")) if hooks else "no prestart hook"
            )
        told = [self._part(stage, each) for each in _TOLD.get(stage, ())]
        line = ", ".join(filter(None, told)) or event_row.STAGES[stage]
        return self._gpus() + line if stage == _GPUS else line

    def _part(self, stage: int, what: str) -> str:
        if number := self.counts.get((stage, what)):
            return _count(number, _WORDS.get(what, milestones.HEADS[what]))
        return self.facts.get((stage, what), "")

    def _gpus(self) -> str:
        number = self.counts.get((_GPUS, "gpu"), 0)
        return f"{self._counted(number)}: " if number else ""

    def _counted(self, number: int) -> str:
        return _count(number, ("GPU", "GPUs")) + (" SIMULATED" if self.simulated else "")


def _is_telling(word: str) -> bool:
    """Return False for arguments that are the same in every start."""
    return not word.startswith(("/", "--pid=", "--ldconfig=", "--load-kmods", "configure"))


def _count(number: int, words: tuple[str, str]) -> str:
    return f"{number} {words[number != 1]}"


def _row(stage: int, actor: str, what: str, result: str, took: str) -> event_row.Row:
    return event_row.Row("stage", "", str(stage), actor, what, result, took, "")


def pieces(row: event_row.Row, width: int, *, unicode: bool) -> list[tuple[str, str]]:
    """Return a line as (column's name, text) pieces, at most `width` columns together."""
    room = width - 10 - 8
    what = event_row.fit(event_row.clean(row.what, unicode), room, unicode)
    return [
        ("stage", f"{row.stage} "), ("actor", f"{event_row.clean(row.actor, unicode):<7.7} "),
        ("what", screen.padded(what, room)),
        ("result", f"{event_row.clean(row.took, unicode):>8}"),
    ]  # fmt: skip
