"""Numbers that are not whole: decimals, lists, durations."""

import pytest

from minirun.common.quantities import decimal, listed, nanoseconds


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("1.5", 1.5), (".5", 0.5), ("7.", 7)])
def test_decimals(text: str, value: float) -> None:
    assert decimal(text) == value


@pytest.mark.parametrize(
    "text", ["", ".", "-1", "+1", "1e3", "1_0", "nan", "inf", "٣", " 1", "1\n"]
)
def test_what_float_reads_and_nobody_means(text: str) -> None:
    assert decimal(text) is None


@pytest.mark.parametrize(
    ("text", "value"), [("0", {0}), ("0-3,7", {0, 1, 2, 3, 7}), ("8191", {8191}), ("1,1-2", {1, 2})]
)
def test_lists(text: str, value: set[int]) -> None:
    assert listed(text) == value


@pytest.mark.parametrize(
    "text", ["", ",", "0-", "-1", "3-1", "0,", "0-8192", "0-99999999999", "²", "1 ,2", "0--1"]
)
def test_no_lists(text: str) -> None:
    """A range of 10^11 numbers is refused before it takes the memory."""
    assert listed(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("5s", 5 * 10**9), ("1m30s", 90 * 10**9), ("250ms", 250 * 10**6),
     ("1.5h", 5400 * 10**9), ("7µs", 7000), ("7μs", 7000), ("7us", 7000), ("3ns", 3),
     (".5s", 5 * 10**8), ("-10m", -600 * 10**9), ("+1s", 10**9),
     ("2562047h", 2562047 * 3600 * 10**9)],
)  # fmt: skip
def test_durations(text: str, value: int) -> None:
    assert nanoseconds(text) == value


@pytest.mark.parametrize(
    "text", ["", "5", "s", "5 s", "5s ", "1.5.5s", "5x", "²s", "٣s", "1e3s", "2562048h",
             "9" * 5000 + "s", "--1s", "1s-", "1_0s"],
)  # fmt: skip
def test_no_durations(text: str) -> None:
    assert nanoseconds(text) is None


def test_a_long_text_that_is_no_duration_is_refused_at_once() -> None:
    assert nanoseconds("1" * 200_000 + "x") is None
