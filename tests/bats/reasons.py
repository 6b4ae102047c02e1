"""Where runc's own tests ask for what is runc's alone: its words, its command line, its layout.

What no row fits is UNEXPLAINED, and fails `make bats`. A row of WORDS changes lines of a test for
minirun, and the rest of the test must pass; a row of REFUSED says why a test cannot.
"""

from fnmatch import fnmatchcase
from typing import NamedTuple


class Words(NamedTuple):
    """What a test asks for in words that minirun need not have.

    Where a line of `file` has `words`, they become `instead`; without it, the whole line goes. The
    row stands for the tests whose names match `test`, a shell pattern. `words` are as they stand in
    the test, with its quotes.
    """

    file: str
    test: str
    words: str
    why: str
    instead: str = ""

    def change(self, text: str) -> str:
        """Return a file of tests, changed. Raises ValueError if the words are not in it."""
        if self.words not in text:
            raise ValueError(f"{self.file}.bats: no line has {self.words!r}")
        if self.instead:
            return text.replace(self.words, self.instead)
        lines = text.splitlines(keepends=True)
        return "".join(":\n" if self.words in line else line for line in lines)


class Refused(NamedTuple):
    """A test that fails where bats prints `words`."""

    file: str
    test: str
    words: str
    why: str


_ERROR = "runc's text of an error; minirun's says what is wrong in other words, and what to do"
_HELP = "the layout of runc's help; minirun's is its own"
_DEBUG = (
    "runc's --debug tells of steps in its own source, in Go and C; minirun's shows a traceback with"
    " an error, and its steps are in the container's log"
)

WORDS = (
    Words("debug", "global --debug*", '== *"level=debug"*', _DEBUG),
    Words("debug", "*'json'", '*\'"level":"debug"\'*', _DEBUG),
    Words("debug", "global --debug*", 'check_debug "$output"', _DEBUG),
    Words(
        "delete",
        "runc delete",
        "-name testbusyboxdelete ",
        "runc names the cgroup of a container without cgroupsPath after its id alone; minirun adds"
        " a mark of a state root that is not its own, so one id below two roots is two cgroups",
        "-name testbusyboxdelete.\\* ",
    ),
    Words("exec", "runc --debug*", '== *"level=debug"*', _DEBUG),
    Words("exec", "runc --debug*", 'check_exec_debug "$output"', _DEBUG),
    Words("help", "runc*-h", "=~ NAME:+", _HELP),
    Words("help", "runc*-h", "=~ runc\\ ", _HELP),
    Words("help", "runc foo -h", "*\"No help topic for 'foo'\"*", _ERROR),
    Words("mask", "*prohibit symlink /proc]", '*"must be mounted on ordinary directory"*', _ERROR),
    Words(
        "seccomp",
        "*startContainer hook*",
        '*"error running hook"*',
        "runc 1.1 leaves out the kind of hook, which later ones and minirun name",
        '*"error running startContainer hook"*',
    ),
    Words(
        "update",
        "update devices*",
        '"access": "rwa"',
        "a slip in the test: the runtime-spec knows r, w and m, and runc passes over an a; minirun"
        " refuses a letter that it does not know",
        '"access": "rw"',
    ),
    Words("version", "runc version", "runc\\ version", "the name of the program"),
)

REFUSED = (
    Refused(
        "cgroups",
        "runc run/create should warn about a non-empty cgroup",
        "processes are in it already",
        "runc 1.1 warns that a later runc will refuse this. That one does, and its test asks for"
        " the error; minirun refuses it too",
    ),
)


def change(file: str, text: str) -> str:
    """Return a file of tests as minirun is asked it."""
    for row in WORDS:
        if row.file == file:
            text = row.change(text)
    return text


def of_words(file: str, test: str) -> list[Words]:
    """Return the rows that have changed a test."""
    return [row for row in WORDS if row.file == file and fnmatchcase(test, row.test)]


def of_failure(file: str, test: str, printed: str) -> str:
    """Return why a test fails; empty where no reason is known."""
    for row in REFUSED:
        if row.file == file and fnmatchcase(test, row.test) and row.words in printed:
            return row.why
    return ""
