"""The page on the runtime-spec: up to date, and every row leads somewhere."""

import pytest

from spec import page
from spec.table import DEPARTURES, ROWS, Row

SOURCE = page.TESTS.parent / "minirun"


def test_the_page_is_what_the_table_says() -> None:
    assert page.PAGE.read_text() == page.text(), "make reference writes it anew"


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_row_leads_to_code_and_tests(row: Row) -> None:
    assert row.support in page.WORDS
    assert row.modules
    assert row.tests
    for module in row.modules:
        assert (SOURCE / module).is_file()
    for test in row.tests:
        assert page.functions(test), f"{test} is no test"


def test_no_property_stands_there_twice() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("what", "why", "test"), DEPARTURES)
def test_a_departure_has_a_test(what: str, why: str, test: str) -> None:
    assert what and why and page.functions(test) == [test.partition("::")[2]]
