"""What pages say of other programs stands there with its source, and in both languages."""

import datetime
import tomllib
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).parents[2]
CLAIMS = tomllib.loads((TOP / "tests/data/claims.toml").read_text())["claim"]


@pytest.mark.parametrize("row", CLAIMS, ids=lambda row: f"{row['page']}: {row['program']}")
def test_the_words_stand_on_the_page(row: dict[str, Any]) -> None:
    if row["page"] == "README":
        assert row["words"] in (TOP / "README.md").read_text()
        return
    pages = {name: TOP / f"tutorials/{row['page']}.{name}.md" for name in ("en", "ko")}
    assert row["words"] in pages["en"].read_text()
    assert row.get("korean", "") in pages["ko"].read_text()


def test_a_row_says_where_and_when() -> None:
    for row in CLAIMS:
        assert row["version"] and row["source"] and isinstance(row["looked"], datetime.date), row
    words = [(row["page"], row["words"]) for row in CLAIMS]
    assert len(words) == len(set(words))
