"""What shows itself: as text that a terminal may get, as HTML that a page may get."""

import pytest

from minirun.faces.api import DeviceDiff, Namespaces, Result, Table, Timeline, predict
from minirun.faces.api.devices import ListChange
from minirun.faces.api.drawing import Drawing
from minirun.faces.show.log.recording import parse

HOSTILE = "\x1b[2J<script>alert(1)</script>\n한글"


@pytest.mark.parametrize(
    "shown",
    [
        Table(("a", HOSTILE), [(HOSTILE, "b")], HOSTILE),
        DeviceDiff(ListChange((f"c 1:2 /dev/{HOSTILE}",)), ListChange(), ListChange((HOSTILE,)),
                   simulated=True, source="snapshots"),
        Namespaces({"mnt": 1}, HOSTILE),
        Namespaces({"mnt": 1}, HOSTILE).compare(Namespaces({"mnt": 2}, HOSTILE)),
    ],
)  # fmt: skip
def test_hostile_names_stay_text(shown: Table | DeviceDiff | Namespaces) -> None:
    assert "\x1b" not in str(shown)
    html = shown._repr_html_()
    assert "<script" not in html
    assert "\x1b" not in html


def test_hostile_events_stay_text() -> None:
    line = '{"t":1,"id":"c","stage":1,"actor":"init","kind":"note","name":%s,"why":%s}\n'
    text = line % (('"\\u001b[2J<script>"',) * 2)
    recording = parse(text.encode())[0]
    drawing = Drawing()
    drawing.take(recording.events)
    for page in (drawing._repr_html_(), Timeline(recording)._repr_html_()):
        assert "<script" not in page
        assert "\x1b" not in page
    assert "\x1b" not in str(drawing)


def test_columns_line_up_with_wide_characters() -> None:
    lines = str(Table(("이름", "b"), [("가나다", "1"), ("abc", "2")])).split("\n")
    assert lines == ["이름    b", "가나다  1", "abc     2"]


def test_namespaces_compare() -> None:
    one = Namespaces({"mnt": 1, "user": 3, "time": 9}, "one")
    other = Namespaces({"mnt": 2, "user": 3}, "other")
    assert one.own(other) == ("mnt",)
    assert one.shared(other) == ("user",)
    table = one.compare(other)
    assert [row[3] for row in table.rows] == ["its own", "the same", "not known"]
    assert table.mark == {0}
    assert "<b>mnt</b>" in table._repr_html_()
    assert Namespaces.recorded({"mount": "mnt:[5]", "x": "broken"}, "") == {"mnt": 5}


def test_a_device_diff_has_both_sides() -> None:
    before = {"files": ["./dev/null c 1:3", "./old"], "devices": ["c 1:3 rwm"]}
    after = {"files": ["./dev/null c 1:3", "./dev/a b c 195:0", "./new/"], "devices": []}
    diff = DeviceDiff.between(before, after, simulated=False)
    assert diff.nodes == (("c 195:0 /dev/a b",), ())
    assert diff.rules == ((), ("c 1:3 rwm",))
    assert diff.files == (("/new/",), ("/old",))
    assert diff.numbers == {"/dev/a b": (195, 0)}
    assert "SIMULATED" not in str(diff)
    assert "SIMULATED" in str(DeviceDiff.from_edits({"simulated": True}))


def test_a_result_reads_as_its_output() -> None:
    assert str(Result(0, "hi\n")) == "hi"
    assert str(Result(3, "hi\n")) == "hi\nexit status 3"


@pytest.mark.parametrize(
    ("answer", "happened", "right", "text"),
    [
        (2, 5, True, "right: 5"),
        (1, 5, False, "not as you predicted; it was: 5"),
        (None, 5, None, "no prediction yet: 5"),
        (2, 7, False, "not as you predicted; it was: 7, which no choice says"),
        (None, 7, None, "no prediction yet: 7, which no choice says"),
    ],
)
def test_a_prediction(answer: int | None, happened: int, right: bool | None, text: str) -> None:
    question = predict("How <many>?", [4, 5], answer)
    verdict = question.check(happened, "because <so>")
    assert verdict.right is right
    assert str(verdict) == f"{text}\nbecause <so>"
    assert "because &lt;so&gt;" in verdict._repr_html_()
    assert "How &lt;many&gt;?" in question._repr_html_()
    assert ("your prediction" in question._repr_html_()) == (answer is not None)
    assert str(question).count(">") == 1 + (answer is not None)


@pytest.mark.parametrize(("choices", "answer"), [(["a"], None), (["a", "a"], None), ("ab", 3)])
def test_a_question_that_cannot_be_asked(choices: list[str], answer: int | None) -> None:
    with pytest.raises(ValueError, match=r"two choices|none of 1 to 2"):
        predict("?", choices, answer)
