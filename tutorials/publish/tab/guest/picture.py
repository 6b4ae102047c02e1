"""What goes from the machine to the page beside its terminal: Figure 3 of the newest run.

It reads the logs of containers, and writes one line of JSON for each news to the second port of the
console: {"page": HTML} for a new container, then {"news": …} as minirun.faces.show.web.board makes
them. In the other direction comes one line: the time of day, for a saved machine has an old one,
and the reader's language. It is of sched(7)'s SCHED_IDLE: it draws if a run waits or is over.
"""

from __future__ import annotations

import json
import os
import select
import time
import tty

from minirun.core.keeping import places
from minirun.faces.show.log.event import Tail
from minirun.faces.show.web.board import Board

PORT = "/dev/hvc1"
PAUSE = 1.0
"""Seconds between two looks."""
LAST = 7
"""The stage after which the command runs."""
HISTORY = f"{places.ROOT}/{places.HISTORY}"


def main() -> None:
    """Serve until the machine ends."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    page, seen = BrowserPage(PORT), set(logs())
    while True:
        found = logs()
        new = [each for each in found if each not in seen]
        seen = {*found, *new}
        if new:
            page.show(new[-1], found[new[-1]])
        else:
            page.pause()


def logs() -> dict[str, str]:
    """Return the logs: id of the container → path, the newest last."""
    paths = []
    for folder, name in ((places.ROOT, f"/{places.EVENTS}"), (HISTORY, "")):
        try:
            paths += [f"{folder}/{each}{name}" for each in os.listdir(folder)]
        except FileNotFoundError:
            continue
    times = {path: os.stat(path).st_mtime for path in paths if os.path.exists(path)}
    return {id_of(path): path for path in sorted(times, key=times.__getitem__)}


def id_of(path: str) -> str:
    """Return the container's id: it is the folder's name, or in that of the log in the history."""
    folder, name = os.path.split(path)
    return os.path.basename(folder) if name == places.EVENTS else name.split(".")[2]


class BrowserPage:
    """The page in the browser, at the other end of the port."""

    def __init__(self, port: str) -> None:
        self.fd = os.open(port, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(self.fd)
        self.language = "en"

    def show(self, container: str, path: str) -> None:
        """Show a run until its command is started, a stage has failed, or another run begins."""
        board, tail = Board(container, self.language), Tail(path)
        board.add(*tail.events())
        if board.events:
            self.send({"page": board.page(presenter=False, framed=True)})
        while board.events and not board.over:
            version, had = board.version, len(board.events)
            board.add(*tail.events())
            ends = (each for each in board.events if each.kind == "end")
            if any(each.stage == LAST or each.ret for each in ends):
                board.show(over=True)
            if news := board.news(version, had, 0):
                self.send({"news": news})
            elif list(logs())[-1:] != [container]:
                break
            else:
                self.pause()
        tail.close()

    def send(self, message: dict[str, object]) -> None:
        """Write one line."""
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self.fd, data) :]

    def pause(self) -> None:
        """Wait a moment; a line that comes is SECONDS LANGUAGE, the former since 1970."""
        if not select.select([self.fd], [], [], PAUSE)[0]:
            return
        seconds, _, language = os.read(self.fd, 64).decode(errors="replace").strip().partition(" ")
        if seconds.isdecimal():
            time.clock_settime(time.CLOCK_REALTIME, int(seconds))
            self.language = language


if __name__ == "__main__":
    main()
