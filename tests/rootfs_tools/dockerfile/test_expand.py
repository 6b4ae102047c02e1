"""Variables and quotes; the shell is asked what it makes of the same text."""

import random
import subprocess
import time

import pytest

from minirun.core.errors import ImageError
from required import installed
from rootfs_tools.dockerfile import expand

VARIABLES = {"A": "one two", "EMPTY": "", "N": "5"}
SAME_IN_A_SHELL = [
    "plain", "$A", "${A}x", "'$A'", '"$A"', r"\$A", r'"\$A \\ \x"', "a'b c'd", "${NONE:-x y}",
    "${EMPTY:-d}", "${EMPTY-d}", "${NONE:+d}", "${A:+got $N}", "${NONE-${N}}", "$N$N", "a\\ b",
    "${EMPTY:+x}", "$NONE", "x$", '"${NONE:-}"',
]  # fmt: skip


@pytest.mark.parametrize("text", SAME_IN_A_SHELL)
def test_a_word_is_what_a_shell_makes_of_it(text: str) -> None:
    shell = f"IFS=; printf %s {text}"
    done = subprocess.run(
        ["sh", "-c", shell], env=VARIABLES, capture_output=True, text=True, check=True
    )
    assert expand.word(text, VARIABLES) == done.stdout


def test_patterns_are_as_in_bash() -> None:
    """# ## % %% / //: 300 that chance makes, in one bash; docker knows no sets, [a-z]."""
    installed("bash")
    chance = random.Random(17)
    rows = []
    for _ in range(300):
        value = "".join(chance.choices("ab./", k=chance.randint(0, 8)))
        pattern = "".join(
            chance.choices(["a", "b", ".", "*", "?", "\\*", "\\/"], k=chance.randint(1, 5))
        )
        sign = chance.choice(["#", "##", "%", "%%", "/", "//"])
        rows.append((value, f"${{V{sign}{pattern}{'/X' if sign[0] == '/' else ''}}}"))
    script = "".join(f"V={value!r}; printf '%s\\n' \"{text}\"\n" for value, text in rows)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    found = [expand.word(text, {"V": value}) for value, text in rows]
    assert found == done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${V#v}", "1.2"), ("${V%$N}", "v1."), ("${V#${NONE:-v1}.}", "2"), ("${NONE#x}", ""),
        ("${V//./\\}}", "v1}2"), ("'${V#v}'", "${V#v}"), ("${V:?x}${V?}", "v1.2v1.2"),
    ],
)  # fmt: skip
def test_patterns_in_words(text: str, value: str) -> None:
    assert expand.word(text, {"V": "v1.2", "N": "2"}) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${NONE?}", "NONE: is not allowed to be unset"),
        ("${E:?}", "E: is not allowed to be empty"),
        ("${NONE:?give it}", "NONE: give it"), ("${V#\\x}", "invalid escape"),
        ("${V:#x}", "unsupported modifier"), ("${V/a", "is missing"),
        ("${V#" + "a" * 1001 + "}", "a pattern of more than 1000"),
    ],
)  # fmt: skip
def test_patterns_that_are_refused(text: str, words: str) -> None:
    with pytest.raises(ImageError, match=words):
        expand.word(text, {"V": "v1.2", "E": ""})


def test_patterns_take_no_time() -> None:
    start = time.monotonic()
    value = "a" * 500_000
    for sign in ("#", "##", "%", "%%", "/", "//"):
        for pattern in ("*a" * 100 + "b", "a" * 500 + "*b", "?" * 500 + "*b*"):
            text = f"${{V{sign}{pattern}{'/x' if sign[0] == '/' else ''}}}"
            assert expand.word(text, {"V": value}) == value
    assert time.monotonic() < start + 20


def test_words_are_split_before_they_are_filled_in() -> None:
    assert expand.words("a $A 'b c' d\\ e", VARIABLES) == ("a", "one two", "b c", "d e")


def test_pairs() -> None:
    found = expand.pairs("X=$A Y='a b' Z=\"$N\" W=$X", VARIABLES)
    assert found == {"X": "one two", "Y": "a b", "Z": "5", "W": ""}
    assert expand.pairs("NAME a  b $N", VARIABLES) == {"NAME": "a  b 5"}
    assert expand.pairs("E=", {}) == {"E": ""}


@pytest.mark.parametrize("text", ["'open", '"open', "${A", "${}", "${A:-x"])
def test_what_has_no_end_or_no_meaning_here_is_refused(text: str) -> None:
    with pytest.raises(ImageError):
        expand.word(text, VARIABLES)


@pytest.mark.parametrize("text", ["NAME", "A=1 B"])
def test_pairs_without_a_value(text: str) -> None:
    with pytest.raises(ImageError):
        expand.pairs(text, {})


def test_variables_do_not_grow_without_end() -> None:
    long = {"A": "x" * 1000}
    assert len(expand.word("$A" * 1000, long)) == 10**6
    for text in ("$A" * 1100, "${B:-" + "$A" * 1100 + "}", "$A${A}" * 600):
        with pytest.raises(ImageError, match="variables of more than"):
            expand.word(text, long)
