"""A long page on the stepper's screen: scrolled by keys, searched, left with q."""

from rich.console import Console

from minirun.common.rich_console import text
from minirun.faces.show.step import frame


class Pager:
    """A title, lines, and which of them stands at the top."""

    def __init__(self, title: str, content: str) -> None:
        self.title = title
        self.lines = content.split("\n")
        self.top = 0
        self.word = ""
        """What is searched for."""

    def move(self, key: str, room: int) -> bool:
        """Scroll, as the key says; False if it is none of the pager's. `room`: lines shown."""
        steps = {
            "down": 1, "j": 1, "\n": 1, "\r": 1, "up": -1, "k": -1, " ": room - 1,
            "pagedown": room - 1, "f": room - 1, "b": 1 - room, "pageup": 1 - room,
            "g": -len(self.lines), "home": -len(self.lines), "G": len(self.lines),
            "end": len(self.lines),
        }  # fmt: skip
        if key == "n" and self.word:
            self.search(self.word)
        elif key not in steps:
            return False
        else:
            self.top += steps[key]
        self.top = max(0, min(self.top, len(self.lines) - room))
        return True

    def search(self, word: str) -> None:
        """Go to the next line with `word`; stay if there is none."""
        self.word = word
        later = range(self.top + 1, len(self.lines))
        for at in [*later, *range(self.top + 1)]:
            if word.lower() in self.lines[at].lower():
                self.top = at
                return

    def draw(self, view: frame.View, console: Console, keys: str) -> frame.Drawn:
        """Return the screen; the caption of `view` stands on it too."""
        foot = frame.lines(console, frame.notes(view))[:2] if view.caption else []
        foot += frame.lines(console, frame.keys(keys))[:1]
        room = console.height - 1 - len(foot)
        self.top = max(0, min(self.top, len(self.lines) - room))
        word = self.word.lower()
        shown = [
            text(line, "found" if word and word in line.lower() else "")
            for line in self.lines[self.top : self.top + room]
        ]
        place = text(f"{min(self.top + room, len(self.lines))}/{len(self.lines)}")
        title = frame.bar(text(f" {self.title}"), place)
        blank = [text("")] * (room - len(shown))
        return frame.lines(console, title, *shown, *blank) + foot
