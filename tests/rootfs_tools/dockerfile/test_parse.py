"""From the text of a Dockerfile to stages and instructions."""

import pytest

from minirun.core.errors import ImageError
from rootfs_tools.dockerfile.ignore import Ignore
from rootfs_tools.dockerfile.parse import parse

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


@pytest.mark.parametrize("sign", ["\u2028", "\x0c", "\x0b", "\x85", "\u2029", "\x1c"])
def test_a_line_ends_with_a_line_feed_and_nothing_else(sign: str) -> None:
    """str.splitlines() knows eleven ends of a line; docker's scanner one."""
    text = f"FROM a\nENV A='x{sign}y'\nRUN echo p{sign}RUN\\\n  q\r\n# c{sign}FOO\nUSER u"
    env, run, user = parse(text).stages[0].instructions
    assert env.text == f"A='x{sign}y'"
    assert (run.name, run.text) == ("RUN", f"echo p{sign}RUN  q")
    assert (user.text, user.line) == ("u", 6)
    rules = Ignore(f"a{sign}b\nc\r\n#{sign}d")
    assert f"a{sign}b" in rules and "c" in rules
    assert not any(name in rules for name in ("a", "b", "d"))


def test_two_backslashes_do_not_continue_a_line() -> None:
    """docker's regular expression wants another character before the last one."""
    first, second = parse("FROM a\nRUN echo x\\\\\nRUN y \\ \t\n z").stages[0].instructions
    assert (first.text, second.text) == ("echo x\\\\", "y  z")


def documents(text: str) -> list[tuple[str, str, bool]]:
    """Return name, content and whether it is expanded, of the documents of one instruction."""
    (one, *_) = parse(f"FROM a\n{text}\nUSER last").stages[0].instructions
    assert parse(f"FROM a\n{text}\nUSER last").stages[0].instructions[-1].name == "USER"
    return [(each.name, each.content(), each.expands) for each in one.documents]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("RUN <<EOF\na\n# b\n\nEOF", [("EOF", "a\n# b\n\n", True)]),
        ("RUN <<-EOF\n\ta\n\t\tb\n\tEOF", [("EOF", "a\nb\n", True)]),
        ("RUN cat <<'A B' > x\n\\\nA B", [("A B", "\\\n", False)]),
        ('COPY <<a <<"b" /x/\n1\na\n2\nb', [("a", "1\n", True), ("b", "2\n", False)]),
        ("RUN 3<<E cat <<F\n1\nE\n2\nF", [("E", "1\n", True), ("F", "2\n", True)]),
        ("RUN cat << EOF\r\nx\r\nEOF\r", [("EOF", "x\r\n", True)]),
        ("RUN --network=none cat \\\n <<EOF\nEOF", [("EOF", "", True)]),
        ("RUN cat <<<word", []),
        ("RUN echo $((1<<2))", []),
        ("RUN x=$(( 1 << 3 )); echo $x", []),
        ("RUN x=$(( (1) << 3 )) && (( y = 1 << x )) && cat <<E\na\nE", [("E", "a\n", True)]),
        ("RUN echo '<<EOF'", []),
        ("RUN echo \"a <<EOF\"", []),
        ("RUN echo a<<EOF", []),
        ('RUN ["cat", "<<EOF"]', []),
        ("CMD cat <<EOF", []),
        ("ENV A=<<EOF", []),
    ],
)  # fmt: skip
def test_here_documents(text: str, found: list[tuple[str, str, bool]]) -> None:
    """Each as buildkit's frontend/dockerfile/parser has it."""
    assert documents(text) == found


def test_values_of_flags_may_be_quoted() -> None:
    (one, _) = (
        parse('FROM a\nCOPY --exclude="a b" --exclude=c\\ d x /\nUSER u').stages[0].instructions
    )
    assert one.values("exclude") == ["a b", "c d"] and one.text == "x /"


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
        (
            "FROM a\nRUN <<EOF\nx\n EOF",
            "line 2: unterminated here-document: there is no line 'EOF'",
        ),
        ("FROM a\nCOPY <<-a <<b /x\n\ta\n\tb\n", "line 2: unterminated here-document: there is"),
        ("# escape=x\nFROM a", "invalid escape token 'x'"),
        ("FROM a\nRUN " + "x" * (1 << 20), "more than 1048576 bytes"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(text: str, words: str) -> None:
    with pytest.raises(ImageError) as caught:
        parse(text)
    assert words in str(caught.value)
