"""A long page on the stepper's screen: scrolled by keys, searched, left with q."""

from minirun.show.step.frame import Line
from minirun.show.step.frame import keys as frame_keys
from minirun.show.text import event_row


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

    def draw(self, width: int, height: int, keys: str, *, unicode: bool) -> list[Line]:
        """Return the screen."""
        room = height - 2
        self.top = max(0, min(self.top, len(self.lines) - room))
        shown = self.lines[self.top : self.top + room]
        place = f" {min(self.top + room, len(self.lines))}/{len(self.lines)} "
        title = event_row.fit(
            event_row.clean(f" {self.title}", unicode), width - len(place), unicode
        )
        found: list[Line] = [[("title", event_row.padded(title, width - len(place)) + place)]]
        for line in shown:
            cut = event_row.cut(event_row.clean(line, unicode), width, event_row.dots(unicode))
            hit = self.word and self.word.lower() in cut.lower()
            found.append([("found" if hit else "", cut)])
        found += [[] for _ in range(room - len(shown))]
        return [*found, *frame_keys(keys, width)[:1]]
