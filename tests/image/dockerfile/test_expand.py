"""Variables and quotes; the shell is asked what it makes of the same text."""

import subprocess

import pytest

from minirun.core.errors import ImageError
from minirun.image.dockerfile import expand

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


def test_words_are_split_before_they_are_filled_in() -> None:
    assert expand.words("a $A 'b c' d\\ e", VARIABLES) == ("a", "one two", "b c", "d e")


def test_pairs() -> None:
    found = expand.pairs("X=$A Y='a b' Z=\"$N\" W=$X", VARIABLES)
    assert found == {"X": "one two", "Y": "a b", "Z": "5", "W": ""}
    assert expand.pairs("NAME a  b $N", VARIABLES) == {"NAME": "a  b 5"}
    assert expand.pairs("E=", {}) == {"E": ""}


@pytest.mark.parametrize("text", ["'open", '"open', "${A", "${A#x}", "${}", "${A:-x"])
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
