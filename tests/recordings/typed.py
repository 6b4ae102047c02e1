"""A command typed into a shell on a real terminal, recorded as asciicast v2.

https://docs.asciinema.org/manual/asciicast/v2/: a line of facts, then a line for each piece of
output: [seconds since the begin, "o", text]. The terminal is a pseudoterminal of 80 x 24, the shell
is sh, and what is typed is echoed by the kernel, as it is to a person.
"""

import codecs
import fcntl
import json
import os
import pty
import select
import struct
import termios
import time

COLUMNS, LINES = 80, 24
KEY = 0.035
"""Seconds between two keys."""
PROMPT = "# "
_QUIET, _LONGEST = 0.5, 60
"""Seconds without output after the last prompt; seconds that a command may take."""


def record(command: str, env: dict[str, str]) -> str:
    """Type `command` at a prompt of a shell that has this environment; return the recording.

    Raises TimeoutError if the prompt does not come back.
    """
    env = {"PS1": PROMPT, "TERM": "xterm-256color", "LANG": "C.UTF-8", **env}
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir("/")
        os.execve("/bin/sh", ["sh", "-i"], env)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    screen = _Screen(fd)
    try:
        screen.until_prompt()
        for key in command:
            time.sleep(KEY)
            os.write(fd, key.encode())
            screen.listen(0)
        os.write(fd, b"\r")
        screen.until_prompt(len(screen.text))
    finally:
        os.close(fd)  # the shell gets SIGHUP
        os.waitpid(pid, 0)
    facts = {"version": 2, "width": COLUMNS, "height": LINES, "title": command}
    rows = [[round(when, 3), "o", what] for when, what in screen.pieces]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in (facts, *rows))


class _Screen:
    """What came out of the terminal, and when."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.began = time.monotonic()
        self.pieces: list[tuple[float, str]] = []
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def text(self) -> str:
        return "".join(what for _, what in self.pieces)

    def listen(self, seconds: float) -> bool:
        """Take what comes within some seconds; return False if nothing did."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        if text := self.decoder.decode(os.read(self.fd, 65536)):
            self.pieces.append((time.monotonic() - self.began, text))
        return True

    def until_prompt(self, after: int = 0) -> None:
        end = time.monotonic() + _LONGEST
        while self.listen(_QUIET) or not self.text[after:].endswith(PROMPT):
            if time.monotonic() > end:
                raise TimeoutError(self.text)
