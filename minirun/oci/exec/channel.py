"""`exec`: the messages of the new process to its caller, and the events between them, for the log.

A process that the container may look into does not hold the log (minirun.core.events.to_pipe): its
events come through the pipe, between its messages. The container may have got hold of that pipe.
"""

import os

from minirun.core import events
from minirun.core.handshake import Channel
from minirun.core.keeping import jsonlite

_EVENT = b'{"v":1,'
"""The beginning of a line that is an event."""
_MOST_EVENTS = 1000


class CallerChannel(Channel):
    """The caller's end of the connection."""

    def __init__(self, read_fd: int, write_fd: int, container_id: str) -> None:
        super().__init__(read_fd, write_fd, "the joiner")
        self.container_id = container_id
        self.passed_on = 0

    def read_line(self) -> str:
        """Return the next line that is no event, without its end; empty at the end of file."""
        while (line := super().read_line()).encode().startswith(_EVENT):
            self._pass_on(line)
        return line

    def read_rest(self) -> bytes:
        """Return all that the other side still sends until it closes its end, except events."""
        rest = super().read_rest()
        while rest.startswith(_EVENT):
            line, _, rest = rest.partition(b"\n")
            self._pass_on(line.decode(errors="replace"))
        return rest

    def _pass_on(self, line: str) -> None:
        """Write a line to the log if it is an event of this container, which may have forged it."""
        try:
            event = jsonlite.loads(line)
            kinds = tuple(type(event[key]) for key in ("pid", "kind", "name", "args"))
        except (ValueError, KeyError, RecursionError):
            return
        of_ours = kinds == (int, str, str, dict) and event.get("id") == self.container_id
        if of_ours and self.passed_on < _MOST_EVENTS:
            self.passed_on += 1
            for fd in events.log_fds():
                try:
                    os.write(fd, line.encode() + b"\n")
                except OSError:
                    pass  # a full disk under the log
