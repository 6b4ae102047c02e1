"""minirun.core.keeping.jsonlite against json, on values and texts that hypothesis makes up."""

import json
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minirun.core.keeping import jsonlite
from night import examples

quick = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=examples(60),
)
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)  # fmt: skip
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30
)
space = st.text(alphabet=" \t\r\n", max_size=3)


@quick
@given(values)
def test_dumps_as_json_does(value: object) -> None:
    assert jsonlite.dumps(value) == json.dumps(value, separators=(",", ":"))


@quick
@given(values, st.integers(1, 4))
def test_dumps_indented_as_json_does(value: object, indent: int) -> None:
    assert jsonlite.dumps(value, indent=indent) == json.dumps(
        value, indent=indent, ensure_ascii=False
    )


@quick
@given(values, space, space)
def test_loads_what_json_wrote(value: object, before: str, after: str) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=1, ensure_ascii=False)):
        assert jsonlite.loads(before + text + after) == value


@quick
@given(values)
def test_numbers_keep_their_kind(value: object) -> None:
    assert repr(jsonlite.loads(jsonlite.dumps(value))) == repr(json.loads(json.dumps(value)))


@quick
@given(values, st.data())
def test_a_text_cut_short_is_refused_as_json_refuses_it(value: object, data: st.DataObject) -> None:
    whole = json.dumps([value])
    text = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    with pytest.raises(jsonlite.JSONError):
        jsonlite.loads(text)


@quick
@given(st.text(alphabet='[]{}",:0123456789.eE+-truefalsn\\u \n', max_size=20))
def test_takes_exactly_what_json_takes(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(jsonlite.JSONError):
            jsonlite.loads(text)
    else:
        assert jsonlite.loads(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "{", '{"a" 1}', '{"a":}', "[1,]", "[1 2]", '"\t"', '"\\x"', '"\\u12"', "nul",
        "1 2", "'a'", "{1:2}", "\ufeff{}", "NaN", "Infinity", "-Infinity", "01", "1.", "+1",
        "[" * 100_000, "9" * 5000, '{"a":1}}', "\x00",
    ],
)  # fmt: skip
def test_malformed_texts_are_one_kind_of_error(text: str) -> None:
    with pytest.raises(jsonlite.JSONError) as caught:
        jsonlite.loads(text)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


def test_malformed_texts_are_refused_where_json_was_never_imported() -> None:
    """Its C half asks json.decoder for the exception; on the hot path nobody has loaded that."""
    program = """
import sys
sys.path.insert(0, sys.argv[1])
from minirun.core.keeping import jsonlite
print(sys.modules.get("json.decoder"))
for text in ('{"a" 1}', '"open', '[1,]', '"\\\\u12"', '{"a":1', ''):
    try:
        jsonlite.loads(text)
    except jsonlite.JSONError:
        print("refused")
"""
    source = jsonlite.__file__.removesuffix("/minirun/core/keeping/jsonlite.py")
    done = subprocess.run(
        [sys.executable, "-IS", "-c", program, source], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["None"] + ["refused"] * 6, done.stderr


@pytest.mark.parametrize("value", [{1, 2}, object(), b"bytes", [1, {"a": 1j}], float("nan")])
def test_what_is_not_json_is_refused(value: object) -> None:
    for indent in (0, 2):
        with pytest.raises((TypeError, ValueError)):
            jsonlite.dumps(value, indent=indent)


def test_the_later_of_two_equal_keys_counts() -> None:
    assert jsonlite.loads('{"a":1,"a":2}') == {"a": 2}


def test_readable_signs_stay_readable_in_a_file_for_people() -> None:
    assert jsonlite.dumps({"이름": "컨테이너"}, indent=2) == '{\n  "이름": "컨테이너"\n}'
    assert jsonlite.dumps({"이름": 1}).isascii()
