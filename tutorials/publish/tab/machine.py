"""The tab's machine from Python, without a browser: type commands in it, and read what they print.

It goes on from its saved state in node: terminal.mjs. Each Machine is a new one, as a reload makes
it in a browser.
"""

from __future__ import annotations

import base64
import io
import os
import select
import subprocess
import tarfile
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tutorials.publish.tab import page

_BEGUN = b"\x1b]133;C\x07"
"""What the machine's shell sends before a command: guest/profile.sh."""
_SIGN = b"\x1c"
"""What is printed around a status: FS, which no program here prints."""
_ASKED = 1.0
"""Seconds between two requests for a prompt: what is typed too early is lost."""


class Ended(NamedTuple):
    """How a command has ended."""

    status: int
    said: str
    seconds: float
    """By this machine's clock."""


class Machine:
    """The machine, at its prompt. Raises TimeoutError, EOFError."""

    def __init__(self, disk: Path, *, compiled_once: bool = False) -> None:
        """`disk`: in one. `compiled_once`: node's --liftoff-only, faster than a browser."""
        program = Path(__file__).with_name("terminal.mjs")
        flags = ["--liftoff-only"] * compiled_once
        self._node = subprocess.Popen(
            ["node", *flags, program, page.folder(), disk],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._buffer = b""
        end = time.monotonic() + 120
        while b"# " not in self._buffer:
            self.type("\f")
            self._receive(_ASKED)
            if time.monotonic() > end:
                raise TimeoutError(f"no prompt: {self._buffer[-300:]!r}")
        self.shell("true", 60)  # further prompts may have come

    def __enter__(self) -> Machine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self._node.kill()
        self._node.communicate()

    def type(self, text: str) -> None:
        """Press keys."""
        assert self._node.stdin
        self._node.stdin.write(text.encode())
        self._node.stdin.flush()

    def until(self, sign: bytes, seconds: float) -> bytes:
        """Wait for a text of the terminal; return what came before it, which is forgotten."""
        end = time.monotonic() + seconds
        while sign not in self._buffer:
            self._receive(end - time.monotonic())
            if time.monotonic() > end:
                raise TimeoutError(f"no {sign!r} after {seconds} s: {self._buffer[-300:]!r}")
        before, _, self._buffer = self._buffer.partition(sign)
        return before

    def shell(self, command: str, seconds: float) -> Ended:
        """Type a line at the prompt, and wait for the next prompt."""
        begun = time.monotonic()
        self.type(f"{command}; printf '\\034%s\\034' $?\n")
        said = self.until(_SIGN, seconds)
        status = int(self.until(_SIGN, 10))
        took = time.monotonic() - begun
        self.until(b"# ", 60)
        said = said.rpartition(_BEGUN)[2]
        return Ended(status, said.decode(errors="replace").replace("\r\n", "\n"), took)

    def put(self, folder: str, files: dict[str, str]) -> None:
        """Write files into a folder of the machine, which is made."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name, text in files.items():
                about = tarfile.TarInfo(name)
                about.size, about.mode = len(text.encode()), 0o755
                archive.addfile(about, io.BytesIO(text.encode()))
        text = base64.encodebytes(packed.getvalue()).decode()
        self.type(f"mkdir -p {folder}; stty -echo; printf '\\034'; "
                  f"head -c {len(text)} | base64 -d | tar -xzC {folder}; stty echo\n")  # fmt: skip
        self.until(_SIGN, 30)
        self.type(text)
        self.until(b"# ", 60)

    def get(self, folder: str) -> dict[str, str]:
        """Return the files of a folder of the machine."""
        said = self.shell(f"tar -czC {folder} . | base64 -w 100", 60).said
        packed = io.BytesIO(base64.b64decode(said))
        with tarfile.open(fileobj=packed) as archive:
            return {
                os.path.basename(each.name): file.read().decode(errors="replace")
                for each in archive if (file := archive.extractfile(each))
            }  # fmt: skip

    def _receive(self, seconds: float) -> None:
        assert self._node.stdout
        if select.select([self._node.stdout], [], [], max(0, seconds))[0]:
            piece = os.read(self._node.stdout.fileno(), 1 << 16)
            if not piece:
                raise EOFError("the emulator has ended")
            self._buffer += piece
