"""The glossary: in both languages, and the Korean texts keep to its words."""

import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
PAGE = TOP / "tutorials/reference/glossary.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| English")
]
KOREAN = {
    path: path.read_text()
    for path in [*TOP.glob("minirun/knowledge/ko/*.toml"), *TOP.glob("tutorials/*.ko.md")]
}
INSTEAD = {
    "네임스페이스": r"(?<![\w/_`\"(\[-])namespace(?:는|은|를|을|가|이|에|의|와|과|로)",
    "디바이스 노드": "장치 노드", "디바이스 규칙": "장치 규칙", "시스템 콜": "시스템 호출",
    "시그널": r"신호를 보내", "심볼릭 링크": "심링크", "자식 프로세스": "하위 프로세스",
    "hook": "훅", "gate": "(?<!\\w)게이트", "handshake": "핸드셰이크",
}  # fmt: skip
"""A word of the glossary → what must not stand for it."""


def test_each_row_is_whole_and_in_order() -> None:
    assert len(ROWS) > 40
    assert all(len(row) == 4 and all(row) for row in ROWS)
    names = [row[0].lower() for row in ROWS]
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    assert all(re.search("[가-힣]", row[3]) for row in ROWS)


def test_the_korean_texts_use_these_words() -> None:
    text = "\n".join(KOREAN.values())
    unused = [row[1] for row in ROWS if row[1].split()[-1] not in text]
    assert unused == []


@pytest.mark.parametrize("word", INSTEAD)
def test_no_other_word_stands_for_it(word: str) -> None:
    assert word in {row[1] for row in ROWS}
    found = {path.name: re.findall(INSTEAD[word], text) for path, text in KOREAN.items()}
    assert {name: words for name, words in found.items() if words} == {}
