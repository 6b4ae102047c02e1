""".dockerignore: which paths a list of patterns leaves out."""

import time

import pytest

from minirun.core.errors import ImageError
from rootfs_tools.dockerfile.ignore import Ignore

PATHS = ("a", "a.txt", "b/a.txt", "b/c/a.txt", "b/c/d", "node/x", "b/node/x", "[x]", "readme.md")


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("*.txt", {"a.txt"}),
        ("**/*.txt", {"a.txt", "b/a.txt", "b/c/a.txt"}),
        ("b", {"b/a.txt", "b/c/a.txt", "b/c/d", "b/node/x"}),
        ("/b/c/", {"b/c/a.txt", "b/c/d"}),
        ("*/node", {"b/node/x"}),
        ("**/node", {"node/x", "b/node/x"}),
        ("b\n!b/c", {"b/a.txt", "b/node/x"}),
        ("*\n!readme.md\n#!a", set(PATHS) - {"readme.md"}),
        ("**\n!**/a.txt", set(PATHS) - {"a.txt", "b/a.txt", "b/c/a.txt"}),
        ("!a\na", {"a"}),
        ("?", {"a"} | {path for path in PATHS if path.startswith("b/")}),
        ("[a-b]", {"a"} | {path for path in PATHS if path.startswith("b/")}),
        ("\\[x\\]", {"[x]"}),
        ("../a.txt", {"a.txt"}),
        ("", set()),
    ],
)
def test_patterns(text: str, left_out: set[str]) -> None:
    ignore = Ignore(text)
    assert {path for path in PATHS if path in ignore} == left_out


def test_a_pattern_without_an_end() -> None:
    with pytest.raises(ImageError, match="line 2: '\\[x' is no pattern"):
        Ignore("a\n[x")


def test_repeated_stars_are_matched_in_time() -> None:
    start = time.monotonic()
    ignore = Ignore("**/" * 30 + "x\n" + "*" * 60 + "y\n")
    path = "/".join(["a"] * 60)
    assert path not in ignore
    assert f"{path}/x" in ignore and f"{path}/zy" in ignore
    assert time.monotonic() < start + 2


@pytest.mark.parametrize(
    ("pattern", "path", "end"),
    [
        ("**/a/" * 7 + "b", "a/" * 60, "b"), ("*a" * 30 + "b", "a" * 200, "b"),
        ("**a" * 9 + "b", "a/" * 90 + "a", "b"), ("**/*a*a*a*a*b", "a" * 99 + "/", "aaaab"),
    ],
)  # fmt: skip
def test_stars_with_text_between_them_are_matched_in_time(
    pattern: str, path: str, end: str
) -> None:
    start = time.monotonic()
    ignore = Ignore(pattern)
    assert f"{path}c" not in ignore and f"{path}{end}" in ignore
    assert time.monotonic() < start + 2


def test_a_star_fits_a_newline_too() -> None:
    assert "a\nb/c" in Ignore("**/c") and "a\nb/c" in Ignore("a**")
