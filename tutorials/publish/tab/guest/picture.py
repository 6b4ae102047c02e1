"""What goes from the machine to the page beside its terminal: the newest run, in two ways.

As it goes on: the lines of its log, as they are written, to the third port of the console. That is
cheap, so it is done at once, by a process like others. The page draws a small picture of them.

Figure 3, as minirun.faces.show.web.board makes it, to the second port: {"page": HTML} for a new
container, then {"news": …}. That costs the machine a second or more, so another process does it, of
sched(7)'s SCHED_IDLE: it draws if a run waits or is over. Back comes one line: the time of day, for
a saved machine has an old one, and the reader's language.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
import tty
from contextlib import suppress

from minirun.core.keeping import places
from minirun.faces.show.log import event_row
from minirun.faces.show.log.event import Event, Tail
from minirun.faces.show.log.order import OPENED
from minirun.faces.show.web.board import Board

PORT, LIVE_PORT = "/dev/hvc1", "/dev/hvc2"
PAUSE, LIVE_PAUSE = 0.5, 0.2
"""Seconds between two looks."""
LAST = 7
"""The stage after which the command runs."""
ROOTS = f"{places.STORE}/{places.ROOTS}"


def main() -> None:
    """Serve until the machine ends."""
    if os.fork():
        forward(console(LIVE_PORT))
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


def console(port: str) -> int:
    """Open a port of the console as it is, without a terminal's ways."""
    fd = os.open(port, os.O_RDWR | os.O_NOCTTY)
    tty.setraw(fd)
    return fd


def forward(port: int) -> None:
    """Send each line of the newest run's log, while the process that draws lives."""
    seen, log, rest = running(), -1, b""
    while os.waitpid(-1, os.WNOHANG) == (0, 0):
        now = running()
        for container in now.keys() - seen.keys():
            with suppress(FileNotFoundError):  # it has gone already
                old, log = log, os.open(now[container], os.O_RDONLY | os.O_CLOEXEC)
                rest = b""
                if old >= 0:
                    os.close(old)
        seen = now
        while log >= 0 and (data := os.read(log, 65536)):
            whole, end, rest = (rest + data).rpartition(b"\n")
            write(port, whole + end)
        time.sleep(LIVE_PAUSE)


def write(fd: int, data: bytes) -> None:
    """Write all of it."""
    while data:
        data = data[os.write(fd, data) :]


def roots() -> list[str]:
    """Return the state roots that are in use, and the default one."""
    links = os.listdir(ROOTS) if os.path.isdir(ROOTS) else []
    used = [os.path.realpath(f"{ROOTS}/{each}") for each in links]
    return list(dict.fromkeys([places.ROOT, *used]))


def running() -> dict[str, str]:
    """Return the logs of containers that are there: id → path."""
    found = {}
    for root in roots():
        for name in os.listdir(root) if os.path.isdir(root) else []:
            path = f"{root}/{name}/{places.EVENTS}"
            if name[0] != "." and os.path.exists(path):
                found[name] = path
    return found


def logs() -> dict[str, str]:
    """Return these logs and those of containers that have gone, the newest last."""
    found = {}
    for folder in (f"{root}/{places.HISTORY}" for root in roots()):
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            found[name.split(".")[2]] = f"{folder}/{name}"
    found |= running()
    times = {each: os.stat(path).st_mtime for each, path in found.items() if os.path.exists(path)}
    return {each: found[each] for each in sorted(times, key=times.__getitem__)}


def place(events: list[Event]) -> str:
    """Return where a run is held, in words; "" if it goes on."""
    for event in reversed(events):
        if event.name == OPENED:
            return ""
        if event.kind == "gate":
            return event_row.place(event.name, event.stage, str(event.args.get("after", "")))
    return ""


class BrowserPage:
    """The page in the browser, at the other end of the port."""

    def __init__(self, port: str) -> None:
        self.fd = console(port)
        self.language = "en"

    def show(self, container: str, path: str) -> None:
        """Show a run until its command is started, a stage has failed, or another run begins."""
        board, tail = Board(container, self.language), Tail(path)
        board.add(*tail.events())
        board.stop = place(board.events)
        if board.events:
            self.send({"page": board.page(presenter=False, framed=True)})
        while board.events and not board.over:
            version, had = board.version, len(board.events)
            board.add(*tail.events())
            ends = (each for each in board.events if each.kind == "end")
            if any(each.stage == LAST or each.ret for each in ends):
                board.show(over=True, stop="")
            elif (stop := place(board.events)) != board.stop:
                board.show(stop=stop)
            if news := board.news(version, had, 0):
                self.send({"news": news})
            elif list(logs())[-1:] != [container]:
                break
            else:
                self.pause()
        tail.close()

    def send(self, message: dict[str, object]) -> None:
        """Write one line."""
        write(self.fd, json.dumps(message).encode() + b"\n")

    def pause(self) -> None:
        """Wait a moment; a line that comes is SECONDS LANGUAGE, the former since 1970."""
        if os.getppid() == 1:  # whose child this is has gone: init starts both anew
            sys.exit()
        if not select.select([self.fd], [], [], PAUSE)[0]:
            return
        seconds, _, language = os.read(self.fd, 64).decode(errors="replace").strip().partition(" ")
        if seconds.isdecimal():
            time.clock_settime(time.CLOCK_REALTIME, int(seconds))
            self.language = language


if __name__ == "__main__":
    main()
