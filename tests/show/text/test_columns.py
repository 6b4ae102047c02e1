"""The aligner of tables."""

from minirun.show.text.columns import aligned
from minirun.show.text.event_row import display_width


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
