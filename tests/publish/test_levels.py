"""The ladder's programs are those of its one text."""

import pytest

from tutorials.publish import levels


def test_each_program_is_as_the_text_has_it() -> None:
    found = levels.programs()
    assert [path.name[:2] for path in found] == [f"0{level}" for level in range(10)]
    stale = [path.name for path, text in found.items() if path.read_text() != text]
    assert stale == [], "edit tutorials/levels/ladder.txt, then make levels"


def test_lines_stand_where_the_text_says() -> None:
    source = "# head\n@ 0-\na\n@ 1-2\nb\n@ 2\nc\n@ 3-\nd\n"
    assert [levels.program(source, level) for level in range(4)] == [
        "a\n", "a\nb\n", "a\nb\nc\n", "a\nd\n",
    ]  # fmt: skip


@pytest.mark.parametrize("line", ["@ ", "@ x", "@ 1-x", "@ 10"])
def test_a_wrong_range_is_named(line: str) -> None:
    with pytest.raises(ValueError, match=line.replace(" ", r"\ ")):
        levels.program(f"{line}\na\n", 1)
