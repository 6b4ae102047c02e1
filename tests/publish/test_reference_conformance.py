"""The page on the runtime-spec: up to date, and every row leads somewhere."""

import ast
from pathlib import Path

import pytest

from tutorials.publish.reference import conformance
from tutorials.publish.reference.table import DEPARTURES, ROWS, Row

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "minirun"


def functions(test: str) -> list[str]:
    """The test functions that a row's entry names: one, or all of a file."""
    path, _, name = test.partition("::")
    tree = ast.parse((TESTS / path).read_text())
    found = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    return [f for f in found if f.startswith("test_") and name in ("", f)]


def test_the_page_is_what_the_table_says() -> None:
    assert conformance.PAGE.read_text() == conformance.text(), "make reference writes it anew"


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_row_leads_to_code_and_tests(row: Row) -> None:
    assert row.support in conformance.WORDS
    assert row.modules
    assert row.tests
    for module in row.modules:
        assert (SOURCE / module).is_file()
    for test in row.tests:
        assert functions(test), f"{test} is no test"


def test_no_property_stands_there_twice() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("what", "why", "test"), DEPARTURES)
def test_a_departure_has_a_test(what: str, why: str, test: str) -> None:
    assert what and why and functions(test) == [test.partition("::")[2]]
