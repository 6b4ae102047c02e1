"""Rows as a picture of two lanes: the runtime's on the left, init's on the right.

          time runtime (hook, cli)        init
    2 init     asks, through a named FIFO, for the prestart hooks to be run; waits
        6.14ms │◄────── RUN_HOOKS ────────┤ # please run the prestart hooks of config.json
    4 hook     turns OCI spec and environment into nvidia-container-cli's arguments
        7.32ms │ ├ nvidia-container-cli argv=--load-kmods configure …
        7.76ms │ └ done: 0 system calls                                          442µs

A message through a FIFO is an arrow from one lane to the other, and so is the birth of init. The
hook and nvidia-container-cli are children of the runtime: guests in its lane, one step to the
right. So is another command that works on the container at the same time, `exec: execve /bin/sh`.
Init has no lane before it is born, nor once it has become the container's command. What does not
fit into the left lane runs over init's, which has nothing to say in this line.

Nothing here needs colours, and nothing Unicode: the same picture in ASCII has | + - < >.
"""

from __future__ import annotations

from minirun.common.screen import display_width
from minirun.faces.show.log.event_row import Row, clean, fit

Pieces = list[tuple[str, str]]
LEFT = 11
"""The column of the runtime's lane: right of a time of ten characters."""
GUESTS = ("hook", "cli")
SGR_COLOURS = {"runtime": "36", "init": "32", "hook": "33", "cli": "35"}
"""Actor → its colour on a terminal, in the numbers of ECMA-48 SGR: console_codes(4)."""
HTML_COLOURS = {"runtime": "#1a7f9c", "init": "#2e8540", "hook": "#a86500", "cli": "#b0489b"}
"""The same in HTML; all can be read on white and on black, and the name stands there too."""
_LAST_STAGE = "7"
_ERRNO = 12
"""The longest error name that is shown: no picture is so narrow that it does not fit."""


class Lanes:
    """Draws the rows of one container, in their order, in at most `width` columns each."""

    def __init__(self, width: int, unicode: bool = True) -> None:
        self.width = width
        self.unicode = unicode
        self.right = LEFT + max(16, (width - LEFT) * 2 // 5)
        self.bar, self.tee, self.corner, self.end, self.line, self.to_left, self.to_right = (
            "│├└┤─◄►" if unicode else "|+++-<>"
        )
        self.alive = False
        """True if init is there."""
        self.begun = False
        """True if something has been drawn."""

    def draw(self, rows: list[Row]) -> list[tuple[Row | None, Pieces]]:
        """Return each row with its pieces; above the very first one the header, of no row."""
        head: list[tuple[Row | None, Pieces]] = [] if self.begun else [(None, self.header())]
        self.begun = True
        return head + [(row, self.row(row)) for row in rows]

    def header(self) -> Pieces:
        """Return the line above the first row."""
        names = f"runtime ({', '.join(GUESTS)})".ljust(self.right - LEFT)
        return [("lane", f"{'time':>{LEFT - 1}} {fit(names, self.right - LEFT)}init")]

    def row(self, row: Row) -> Pieces:
        """Return a row as (column's name, text) pieces."""
        self.alive |= row.actor == "init" or row.to == "init"
        if row.kind == "begin":
            return self._heading(row)
        time: Pieces = [("time", f"{row.time[: LEFT - 1]:>{LEFT - 1}} ")]
        if row.to and (row.actor == "init") != (row.to == "init"):
            return time + self._arrow(row)
        if row.actor == "init":
            pieces = self._right(row)
        else:
            pieces = self._left(row)
        if row.kind == "end" and (row.stage == _LAST_STAGE or row.result == "FAILED"):
            self.alive = False
        return time + pieces

    def _heading(self, row: Row) -> Pieces:
        actor = clean(row.actor, unicode=False)
        what = fit(self._clean(row.what), self.width - LEFT, self.unicode)
        return [("stage", f"{row.stage} "), ("actor", f"{actor:<8.8} "), ("heading", what)]

    def _arrow(self, row: Row) -> Pieces:
        label = fit(self._clean(row.what.split(" ")[0]), self.right - LEFT - 8, self.unicode)
        shaft = f" {label} ".center(self.right - LEFT - 2, self.line)
        if row.actor == "init":
            drawn = self.bar + self.to_left + shaft + self.end
        else:
            drawn = self.tee + shaft + self.to_right + self.bar
        aside = " ".join(part for part in (row.result, row.why and f"# {row.why}") if part)
        room = self.width - self.right - 2
        return [("arrow", drawn), ("why", " " + fit(self._clean(aside), room, self.unicode))]

    def _left(self, row: Row) -> Pieces:
        guest = row.actor != "runtime"
        ends = guest and row.kind == "end"
        lead = (f"{self.bar} " if guest else "") + f"{self.corner if ends else self.tee} "
        what, inner = self._clean(self._named(row)), self.right - LEFT - len(lead) - 1
        if display_width(what) > inner:  # over init's lane
            return [("lane", lead), *self._text(row, what, self.width - LEFT - len(lead))]
        init = " " * (inner - display_width(what) + 1) + (self.bar if self.alive else " ")
        room = self.width - self.right - 1
        outcome = self._outcome(row, room)[:room]
        end = f"{outcome:>{room}}" if outcome else ""
        return [("lane", lead), ("what", what), ("lane", init), ("result", end)]

    def _right(self, row: Row) -> Pieces:
        last = row.kind == "end" and row.stage == _LAST_STAGE
        gap = " " * (self.right - LEFT - 1)
        lead = f"{self.bar}{gap}{self.corner if last else self.tee} "
        what = self._clean(row.what)
        return [("lane", lead), *self._text(row, what, self.width - self.right - 2)]

    def _named(self, row: Row) -> str:
        """Return what was done, and the actor if it is none of Figure 3."""
        return row.what if row.actor in ("runtime", *GUESTS) else f"{row.actor}: {row.what}"

    def _text(self, row: Row, what: str, room: int) -> Pieces:
        """Return what was done, and what came of it at the right edge."""
        outcome = self._outcome(row, room - display_width(what) - 1)[:room]
        what = fit(what, room - len(outcome) - 1 if outcome else room, self.unicode)
        gap = " " * (room - display_width(what) - len(outcome)) if outcome else ""
        return [("what", what), ("result", gap + outcome)]

    def _outcome(self, row: Row, room: int) -> str:
        """Return the errno of a call that failed, and how long it took if there is room."""
        fine = row.result in ("", "ok", "FAILED") or row.result.startswith("=")
        error = "" if fine else clean(row.result, unicode=False)[:_ERRNO]
        both = f"{error} {self._clean(row.took)}".strip()
        return both if display_width(both) <= room else error

    def _clean(self, text: str) -> str:
        return clean(text, self.unicode)
