"""Runs minirun as its launcher does, and writes down which of its functions run, and which lines.

    .venv/bin/python -I tracer.py FOLDER PROGRAM run --rm busybox true

PROGRAM is the launcher that `make setup` writes, or minirun/__main__.py, which does without it.

Each process has a file in FOLDER, a copy that clone3(2) makes too: it goes on with this trace. A
file is made at once, and only mapped into memory: init closes its descriptors, and leaves the
host's files. Lines of it, each once: "call STAGE FILE LINE", the line at which the
function begins; "line FILE LINE". STAGE is that of the log, or "load": a module was being imported.
"""

from __future__ import annotations

import mmap
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_SIZE = 4 << 20
_CO_OPTIMIZED = 1
_CHECKOUT = os.path.abspath(__file__ + "/../../../..")
_PACKAGE = f"{_CHECKOUT}/minirun/"


class Trace:
    """What a process has called so far."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.pid = 0

    def begin(self) -> None:
        """Begin a file: at the first line of a process, before it has left the host's files."""
        self.pid = os.getpid()
        self.seen: set[tuple[object, ...]] = set()
        self.at = number = 0
        while not self._has_file(number):
            number += 1

    def _has_file(self, number: int) -> bool:
        """Map a new file; return False if another process has one of this number."""
        try:
            fd = os.open(f"{self.folder}/{number}", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        os.ftruncate(fd, _SIZE)
        self.memory = mmap.mmap(fd, _SIZE)
        os.close(fd)
        return True

    def write(self, *words: object) -> None:
        """Write a line that is not there yet."""
        if self.pid != os.getpid():
            self.begin()
        if words not in self.seen:
            self.seen.add(words)
            line = f"{' '.join(map(str, words))}\n".encode()
            self.memory[self.at : self.at + len(line)] = line
            self.at += len(line)

    def called(self, frame: FrameType, event: str, _: object) -> object:
        """Write down a call of a function of minirun's: the function of sys.settrace(3)."""
        code = frame.f_code
        if not (code.co_filename.startswith(_PACKAGE) and code.co_flags & _CO_OPTIMIZED):
            return None  # not minirun's, or the body of a module or of a class
        events = sys.modules.get("minirun.core.events")
        stage = "load" if _is_loading(frame) else getattr(events, "_stage", 0)
        self.write("call", stage, code.co_filename, code.co_firstlineno)
        return self.went

    def went(self, frame: FrameType, event: str, _: object) -> object:
        """Write down a line."""
        if event == "line":
            self.write("line", frame.f_code.co_filename, frame.f_lineno)
        return self.went


def _is_loading(frame: FrameType | None) -> bool:
    """Return True if a module of minirun's is being imported: its body has called."""
    while frame:
        code = frame.f_code
        if code.co_name == "<module>" and code.co_filename.startswith(_PACKAGE):
            return bool(frame.f_globals["__name__"] != "__main__")
        frame = frame.f_back
    return False


def main(folder: str, program: str, *args: str) -> None:
    """Run the program from here on."""
    trace = Trace(folder)
    sys.argv = [program, *args]
    with open(program) as file:
        code = compile(file.read(), program, "exec")
    sys.settrace(trace.called)  # type: ignore[arg-type]
    exec(code, {"__name__": "__main__", "__file__": program})


if __name__ == "__main__":
    main(*sys.argv[1:])
