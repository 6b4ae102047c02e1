"""One reader of whole numbers for all flags."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minirun.core.keeping.numbers import LARGEST, whole


@given(st.integers(-(1 << 70), 1 << 70))
def test_a_number_within_its_limits(number: int) -> None:
    expected = number if -LARGEST <= number <= LARGEST else None
    assert whole(str(number), -LARGEST) == expected
    assert whole(str(number)) == (expected if number >= 0 else None)


def test_the_largest_is_the_one_of_64_bits_with_a_sign() -> None:
    assert whole("9223372036854775807") == 9223372036854775807
    assert whole("9223372036854775808") is None


@pytest.mark.parametrize(
    "text", ["", "-", "--1", "+1", " 1", "1 ", "1_0", "0x1", "1.0", "1e3", "²", "٣", "1\n", "-1"]
)
def test_what_a_user_does_not_mean_by_a_number(text: str) -> None:
    assert whole(text) is None


def test_more_digits_than_int_takes() -> None:
    digits = sys.get_int_max_str_digits() + 1
    with pytest.raises(ValueError, match="digits"):
        int("9" * digits)
    assert whole("9" * digits) is None
    assert whole("0" * digits + "7") == 7
    assert whole("-" + "9" * digits, -LARGEST) is None
