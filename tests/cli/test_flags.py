"""Reading a command line, by GNU's and docker's rules."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minirun.cli.flags import Flags, HelpAsked, each, flag
from minirun.core.errors import UsageError


class Run(Flags):
    """Run it."""

    command, arguments, mixed = "run", "IMAGE", False
    interactive: bool = flag("-i --interactive", "a switch")
    tty: bool = flag("-t --tty", "another")
    env: list[str] = each("-e --env NAME=VALUE", "many times")
    workdir: str = flag("-w --workdir --cwd DIR", "with a value")
    net: str = flag("--net MODE", "with a default", default="none")


class MixedRun(Run):
    """Run it, with flags anywhere."""

    mixed = True


def read(*words: str, mixed: bool = False) -> tuple[dict[str, Any], list[str]]:
    """What was changed from the defaults, and the arguments."""
    found = (MixedRun if mixed else Run)(list(words))
    values = {key: getattr(found, key) for key in Run.known()}
    return {k: v for k, v in values.items() if v != Run.known()[k].empty}, found.args


def test_nothing() -> None:
    found = Run([])
    assert (found.interactive, found.tty, found.env, found.workdir) == (False, False, [], "")
    assert (found.net, found.help) == ("none", False)
    assert found.args == []
    assert found.given == set()


@pytest.mark.parametrize(
    ("words", "values", "args"),
    [
        ("-i", {"interactive": True}, []),
        ("--interactive", {"interactive": True}, []),
        ("--interactive=true", {"interactive": True}, []),
        ("--interactive=false", {}, []),
        ("-i --interactive=false", {}, []),
        ("-it", {"interactive": True, "tty": True}, []),
        ("-w /x", {"workdir": "/x"}, []),
        ("-w/x", {"workdir": "/x"}, []),
        ("-w=/x", {"workdir": "/x"}, []),
        ("--workdir /x", {"workdir": "/x"}, []),
        ("--workdir=/x", {"workdir": "/x"}, []),
        ("--cwd /x", {"workdir": "/x"}, []),
        ("--workdir=", {}, []),
        ("-w a -w b", {"workdir": "b"}, []),
        ("-itw /x", {"interactive": True, "tty": True, "workdir": "/x"}, []),
        ("-itw/x", {"interactive": True, "tty": True, "workdir": "/x"}, []),
        ("-e A=1 --env B=2 -eC=3 --env=D=4", {"env": ["A=1", "B=2", "C=3", "D=4"]}, []),
        ("-e=A=1", {"env": ["A=1"]}, []),
        ("-e -i", {"env": ["-i"]}, []),
        ("--net host", {"net": "host"}, []),
        ("image", {}, ["image"]),
        ("image -i", {}, ["image", "-i"]),
        ("-i image cmd -t --nosuch", {"interactive": True}, ["image", "cmd", "-t", "--nosuch"]),
        ("-i -- -t", {"interactive": True}, ["-t"]),
        ("--", {}, []),
        ("- -i", {}, ["-", "-i"]),
        ("image --", {}, ["image", "--"]),
    ],
)
def test_flags_before_the_first_argument(
    words: str, values: dict[str, Any], args: list[str]
) -> None:
    assert read(*words.split()) == (values, args)


@pytest.mark.parametrize(
    ("words", "values", "args"),
    [
        ("id -i", {"interactive": True}, ["id"]),
        ("-i id -w /x other", {"interactive": True, "workdir": "/x"}, ["id", "other"]),
        ("id -- -i", {}, ["id", "-i"]),
        ("- -i", {"interactive": True}, ["-"]),
    ],
)
def test_flags_may_stand_after_arguments(
    words: str, values: dict[str, Any], args: list[str]
) -> None:
    assert read(*words.split(), mixed=True) == (values, args)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--nosuch", "unknown flag: --nosuch"),
        ("--nosuch=1", "unknown flag: --nosuch"),
        ("--inter", "unknown flag: --inter"),
        ("-x", "unknown flag: -x"),
        ("-ix", "unknown flag: -x"),
        ("-w", "flag needs an argument: -w"),
        ("-iw", "flag needs an argument: -w"),
        ("--env", "flag needs an argument: --env"),
        ("--interactive=maybe", "invalid value 'maybe' for --interactive: true or false"),
        ("---i", "unknown flag: ---i"),
        ("--=x", "unknown flag: --"),
    ],
)
def test_mistakes(words: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(*words.split())
    assert str(caught.value) == text
    assert caught.value.hint == "see 'minirun run --help'"
    assert caught.value.status == 125


def test_words_that_are_empty_or_odd_are_arguments() -> None:
    assert read("", "-i") == ({}, ["", "-i"])
    assert read("-w", "", "image") == ({}, ["image"])
    assert read("é", "\udcff") == ({}, ["é", "\udcff"])


def test_what_was_given_is_known_even_where_it_is_the_default() -> None:
    found = Run(["--net", "none", "--tty=false"])
    assert found.given == {"net", "tty"}


def test_values_are_attributes() -> None:
    found = Run(["-w", "/x"])
    assert found.workdir == "/x"
    with pytest.raises(AttributeError):
        found.nosuch  # type: ignore[attr-defined]  # noqa: B018


def test_the_callers_list_is_left_alone() -> None:
    words = ["-i", "image"]
    Run(words)
    assert words == ["-i", "image"]


@settings(deadline=None, database=None)
@given(
    st.lists(
        st.sampled_from(["-i", "-t", "--tty"])
        | st.text(min_size=1).map(lambda v: f"-e{v}")
        | st.text().map(lambda v: f"--env={v}")
        | st.text().map(lambda v: f"--net={v}")
    ),
    st.lists(st.text()),
)
def test_any_mix_is_read_as_it_was_written(flags: list[str], args: list[str]) -> None:
    found = Run([*flags, "--", *args])
    assert found.args == args
    wanted = [
        word[6:] if word.startswith("--env=") else word[2:].removeprefix("=")
        for word in flags
        if word.startswith(("--env=", "-e"))
    ]
    assert found.env == wanted
    nets = [word[6:] for word in flags if word.startswith("--net=")]
    assert found.net == (nets or ["none"])[-1]
    assert found.interactive == ("-i" in flags)


@pytest.mark.parametrize("words", [["-h"], ["-i", "--help", "image"]])
def test_help_comes_before_all_else(words: list[str]) -> None:
    with pytest.raises(HelpAsked) as caught:
        Run(words)
    assert str(caught.value) == Run.usage()


def test_the_help_text_names_every_flag() -> None:
    text = Run.usage()
    assert text.splitlines()[0] == "Usage: minirun run [flags] IMAGE"
    assert "Run it." in text
    for one in Run.known().values():
        (line,) = [row for row in text.splitlines() if one.help in row]
        assert all(name in line for name in one.names)
        assert one.value in line
