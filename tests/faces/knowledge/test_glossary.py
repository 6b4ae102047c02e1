"""The glossary: whole in both languages, and of words that the Korean texts use."""

import re
from pathlib import Path

TOP = Path(__file__).parents[3]
PAGE = TOP / "tutorials/reference/glossary.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| English")
]
KOREAN = [
    path.read_text()
    for path in [*TOP.glob("minirun/faces/knowledge/ko/*.toml"), *TOP.glob("tutorials/*.ko.md")]
]


def test_each_row_is_whole_and_in_order() -> None:
    assert len(ROWS) > 40
    assert all(len(row) == 4 and all(row) for row in ROWS)
    names = [row[0].lower() for row in ROWS]
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    assert all(re.search("[가-힣]", row[3]) for row in ROWS)


def test_the_korean_texts_use_these_words() -> None:
    text = "\n".join(KOREAN)
    unused = [row[1] for row in ROWS if row[1].split()[-1] not in text]
    assert unused == []
