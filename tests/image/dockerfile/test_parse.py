"""From the text of a Dockerfile to stages and instructions."""

import pytest

from minirun.core.errors import ImageError
from minirun.image.dockerfile.parse import parse

TEXT = """\
# syntax=docker/dockerfile:1
ARG VERSION=12

FROM debian:$VERSION AS Build
RUN apt-get update && \\
    # a comment between

    apt-get install -y gcc
COPY --chown=1:2 --from=other ["a b", "/x/"]
from scratch
CMD ["/a", "b"]
CMD [not json]
"""


def test_stages_and_lines() -> None:
    found = parse(TEXT)
    assert [(each.name, each.text) for each in found.args] == [("ARG", "VERSION=12")]
    assert [(s.image, s.name) for s in found.stages] == [
        ("debian:$VERSION", "build"),
        ("scratch", ""),
    ]
    run, copy = found.stages[0].instructions
    assert (run.line, run.text) == (5, "apt-get update &&     apt-get install -y gcc")
    assert (copy.flag("chown"), copy.flag("from")) == ("1:2", "other")
    assert copy.words == ("a b", "/x/")
    assert [each.words for each in found.stages[1].instructions] == [("/a", "b"), None]


def test_another_escape() -> None:
    found = parse("# escape=`\nFROM x\nRUN a `\n  b\\\n")
    assert found.escape == "`"
    assert found.stages[0].instructions[0].text == "a   b\\"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FROM a\nFROOM b", "line 2: unknown instruction: FROOM"),
        ("FROM a\n\n# c\nONBUILD RUN x", "line 4: unknown instruction: ONBUILD"),
        ("FROM a\nRUN --secret=x y", "line 2: unknown flag: RUN --secret"),
        ("RUN a\nFROM b", "line 1: no build stage in current context"),
        ("ARG a", "no FROM"),
        ("", "no FROM"),
        ("FROM a b", "line 1: FROM requires either one or three arguments"),
        ("FROM a AS -", "invalid name for build stage: '-'"),
        ("FROM a AS x\nFROM b AS X", "line 2: duplicate name x"),
        ("FROM a\nRUN", "line 2: RUN requires at least one argument"),
        ("FROM a\nRUN <<EOF\nx\nEOF", "line 2: a here-document"),
        ("# escape=x\nFROM a", "invalid escape token 'x'"),
        ("FROM a\nRUN " + "x" * (1 << 20), "more than 1048576 bytes"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(text: str, words: str) -> None:
    with pytest.raises(ImageError) as caught:
        parse(text)
    assert words in str(caught.value)
