"""What the pages quote of the tree stands there, and is what their sentences were written for."""

from pathlib import Path

import pytest

from tutorials.publish import quotes

QUOTING = [path for path in quotes.pages() if [*quotes.quotes(path.read_text())]]
PAGE = """Text.

```python minirun/core/hooks.py THING 2-3 ?
```

```diff old.py new.py THING 0123abcd
old
```
"""


@pytest.mark.parametrize("path", QUOTING, ids=lambda path: path.name)
def test_a_page_quotes_the_tree_of_today(path: Path) -> None:
    page = path.read_text()
    assert quotes.refreshed(page) == page, "make quotes"


@pytest.mark.parametrize("path", QUOTING, ids=lambda path: path.name)
def test_its_sentences_were_written_for_it(path: Path) -> None:
    assert quotes.unread(path.read_text()) == [], "make quotes says what to read again"


@pytest.mark.parametrize(
    "path", [path for path in QUOTING if ".ko." in path.name], ids=lambda path: path.name
)
def test_both_languages_quote_the_same(path: Path) -> None:
    pair = (path, path.with_name(path.name.replace(".ko.", ".en.")))
    ours, theirs = ([each._replace(line=0) for each in quotes.quotes(p.read_text())] for p in pair)
    assert ours == theirs


def test_a_text_that_has_changed_is_seen() -> None:
    """A new quote gets its hash; an old one keeps it, and is to be read again."""
    page = quotes.refreshed(PAGE, lambda what: f"{' '.join(what)}\n")
    first, second = quotes.quotes(page)
    assert first.body == "python minirun/core/hooks.py THING 2-3\n"
    assert first.hash == quotes.hash_of(first.body)
    assert second.hash == "0123abcd" and quotes.unread(page) == [second]


def test_what_a_quote_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotes, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text(
        "X = (\n    1,\n)\nY: int = 2\n\nclass C:\n    @property\n    def f(self):\n"
        "        return 1\n"
    )
    (tmp_path / "b.py").write_text("Y: int = 3\n")
    assert quotes.text_of(("python", "a.py", "X")) == "X = (\n    1,\n)\n"
    assert quotes.text_of(("python", "a.py", "C.f")) == "@property\ndef f(self):\n    return 1\n"
    assert quotes.text_of(("python", "a.py", "C.f", "3-3")) == "return 1\n"
    assert quotes.text_of(("text", "a.py", "2-2")) == "1,\n"
    assert quotes.text_of(("diff", "a.py", "b.py", "Y")) == "-Y: int = 2\n+Y: int = 3\n"
    for wrong in (("python", "a.py", "Z"), ("python", "a.py", "C", "3-9")):
        with pytest.raises(ValueError, match=r"a\.py"):
            quotes.text_of(wrong)
