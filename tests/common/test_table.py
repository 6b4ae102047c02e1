"""Tables: plain columns, and what rich draws on a terminal."""

import contextlib
import os
import subprocess
import sys
import termios

import pytest

from minirun.common.screen import display_width
from minirun.common.table import aligned


def test_columns_begin_below_each_other() -> None:
    rows = [("A", "LONG HEAD", "C"), ("word", "", "last"), ("x", "y", "")]
    assert aligned(rows) == ["A     LONG HEAD  C", "word             last", "x     y"]
    assert aligned([]) == []


def test_runcs_columns_have_a_least_width() -> None:
    assert aligned([("ID", "PID"), ("a-long-identifier", "1")], 3, 12) == [
        "ID                  PID", "a-long-identifier   1",
    ]  # fmt: skip
    assert aligned([("ID", "PID")], 3, 12) == ["ID          PID"]


def test_wide_and_hostile_cells() -> None:
    first, second = aligned([("이름", "x"), ("a\x1b[2J\n", "y")])
    assert first == "이름" + " " * 8 + "x"
    assert second == r"a\x1b[2J\n  y"
    assert display_width(first) == display_width(second)
    assert aligned([("é", "x")], unicode=False) == [r"\xe9  x"]


TABLE = """
import sys
from minirun.common import table
rows = [("ID", "STATE", "SAYS"), ("a" * 30, "ok", "[red]many[/red] \\x1b[2J words :smile: " * 3)]
sys.stdout.write(table.title("[b]title") + table.text(rows, indent=2))
if sys.argv[1:]: sys.stdout.write(table.page(["Usage: x", "", "Flags:", "  -a  [i]all", "end"]))
sys.stdout.flush()
print("rich" in sys.modules, file=sys.stderr)
"""


def drawn(columns: int, *args: str, **env: str) -> str:
    """What the program prints on a terminal of so many columns."""
    main, worker = os.openpty()
    termios.tcsetwinsize(worker, (24, columns))
    argv = [sys.executable, "-c", TABLE, *args]
    with subprocess.Popen(argv, stdout=worker, stderr=subprocess.DEVNULL, env=os.environ | env):
        os.close(worker)
        shown = b""
        with contextlib.suppress(OSError):  # EIO: the end
            while chunk := os.read(main, 4096):
                shown += chunk
    os.close(main)
    return shown.decode().replace("\r", "")


def test_anywhere_but_on_a_terminal_it_is_plain_without_rich() -> None:
    done = subprocess.run([sys.executable, "-c", TABLE], capture_output=True, text=True, check=True)
    assert done.stderr == "False\n"
    lines = done.stdout.splitlines()
    assert lines[0] == "[b]title" and lines[1] == "  ID" + " " * 30 + "STATE  SAYS"
    assert lines[2].startswith(f"  {'a' * 30}  ok     [red]many[/red] \\x1b[2J words :smile: [red]")


def test_on_a_terminal_texts_are_broken_and_ids_are_not() -> None:
    shown = drawn(80, LC_ALL="C.UTF-8", TERM="xterm", NO_COLOR="1")
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) > 3
    assert "a" * 30 in shown
    assert shown.count("[red]many[/red] \\x1b[2J") == 3, "markup and escapes are text"


def test_a_table_that_has_no_room_keeps_its_rows_whole() -> None:
    shown = drawn(50, LC_ALL="C.UTF-8", TERM="xterm", NO_COLOR="1")
    assert len(shown.splitlines()) == 3
    assert shown.count(":smile:") == 3


@pytest.mark.parametrize(
    "env",
    [{"LC_ALL": "C", "TERM": "xterm"}, {"LC_ALL": "C.UTF-8", "TERM": "dumb"},
     {"LC_ALL": "C.UTF-8", "TERM": "xterm", "NO_COLOR": "1"}],
    ids=["ASCII", "dumb", "NO_COLOR"],
)  # fmt: skip
def test_who_gets_no_colours(env: dict[str, str]) -> None:
    assert "\x1b" not in drawn(80, **env)
    assert "\x1b[32mok" in drawn(80, LC_ALL="C.UTF-8", TERM="xterm", NO_COLOR="")


def test_titles_of_a_page() -> None:
    shown = drawn(80, "page", LC_ALL="C.UTF-8", TERM="xterm", NO_COLOR="")
    assert shown.endswith("\nUsage: x\n\n\x1b[1mFlags:\x1b[0m\n  -a  [i]all\nend\n")
