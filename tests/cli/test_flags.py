"""Reading a command line, by GNU's and docker's rules."""

import importlib
import pkgutil
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minirun import cli, docker, faces, toolkit
from minirun.cli import help
from minirun.cli.flags import Flags, HelpAsked, flag
from minirun.cli.run.run_flags import RunFlags as Run_
from minirun.common.docker_record import DockerRecord
from minirun.core.errors import UsageError
from minirun.core.keeping.places import ROOT, STORE
from minirun.docker.stop import StopFlags
from minirun.faces.commands import gpu
from minirun.oci.run_config import PIDS_LIMIT
from minirun.toolkit import timeslice
from minirun.toolkit.commands import sharing
from rootfs_tools import cli as workshop
from rootfs_tools import recipe
from rootfs_tools.cli.images import Images


class Run(Flags):
    """Run it."""

    command, mixed = "run", False
    interactive: bool = flag("-i")
    tty: bool = flag("-t")
    env: list[str] = flag("-e")
    workdir: str = flag("-w", "--cwd")
    net: str = flag(default="none")
    step: str = flag(optional="stage")
    from_: str
    cdi__enabled: bool


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
        ("-it=false -i=true", {"interactive": True}, []),
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
        (
            "-net host -interactive -workdir=/x",
            {"net": "host", "interactive": True, "workdir": "/x"},
            [],
        ),
        ("--step image", {"step": "stage"}, ["image"]),
        ("--step=x image", {"step": "x"}, ["image"]),
        ("--from /x --cdi.enabled", {"from_": "/x", "cdi__enabled": True}, []),
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
        ("-i=maybe", "invalid value 'maybe' for -i: true or false"),
        ("---i", "unknown flag: ---i"),
        ("--=x", "unknown flag: --"),
    ],
)
def test_mistakes(words: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(*words.split())
    assert str(caught.value) == text
    assert caught.value.hint.endswith("see 'minirun run --help'")
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


@pytest.mark.parametrize(
    ("words", "taken"),
    [
        ("-w x busybox", ("-w", "x")),
        ("-it -w x busybox", ("-w", "x")),
        ("-w x -i busybox", ("", "")),
        ("-w=x busybox", ("", "")),
        ("--workdir=x busybox", ("", "")),
        ("busybox -w x", ("", "")),
        ("-w busybox", ("-w", "busybox")),
        ("-w x -- busybox", ("-w", "x")),
    ],
)
def test_which_flag_has_taken_the_word_before_the_arguments(
    words: str, taken: tuple[str, str]
) -> None:
    assert Run(words.split()).taken == taken


@pytest.mark.parametrize("name", ["lang", "store", "gpu-exclusive"])
def test_a_flag_that_stands_before_the_command(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        Run([f"--{name}", "x", "busybox"])
    assert caught.value.line() == (
        f"unknown flag: --{name} (it stands before the command: minirun --{name} … run)"
    )


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
    assert type(caught.value.flags) is Run


def test_a_value_is_one_of_some_words() -> None:
    found = Run(["--net", "x"])
    found.check("step", "", "stage")
    with pytest.raises(UsageError) as caught:
        found.check("net", "none", "host", "own")
    assert caught.value.line() == "invalid --net 'x' (none, host or own)"
    assert caught.value.status == 125


PACKAGES = ("minirun.", "rootfs_tools.")


def commands() -> list[type[Flags]]:
    """All classes of flags that stand for a command."""
    for package in (cli, docker, toolkit, faces.commands, workshop):
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(each.name)
    found, pending = [], [Flags]
    while pending:
        pending += (below := pending.pop().__subclasses__())
        found += [one for one in below if one.__module__.startswith(PACKAGES)]
    named = {one for one in found if one.command or "text" in help.TEXTS.get(one.__name__, ())}
    return sorted(named, key=lambda one: one.__name__)


@pytest.mark.parametrize("flags", commands(), ids=lambda flags: flags.__name__)
def test_the_help_text_names_every_flag(flags: type[Flags]) -> None:
    lines = help.usage(flags, flags.command).splitlines()
    assert lines[0].startswith(f"Usage: minirun {flags.command}".rstrip() + " [flags]")
    for one in flags.known().values():
        name = rf"  (-.*, )?{re.escape(one.names[0])}( |,|\[|$)"
        (line,) = [row for row in lines if re.match(name, row)]
        assert all(name in line for name in one.names)
        assert line.split("  ")[-1], "and says what it does"


def test_no_text_speaks_of_what_is_not_there() -> None:
    every = {one.__name__: one for base in commands() for one in base.__mro__[:-1]}
    plain = cli.COMMANDS.keys() & help.TEXTS.keys()
    sections = {name: t for name, t in help.TEXTS.items() if name not in {"commands", *plain}}
    assert sorted(sections) == sorted(set(every) & set(sections))
    below = {key for one in every.values() for key in one.known()}
    for name, texts in sections.items():
        own = below if name == "Flags" else every[name].known()
        assert set(texts.get("flags", {})) <= set(own), name
    assert all(help.usage(Flags, name).startswith(f"Usage: minirun {name} ") for name in plain)
    assert len(commands()) == len({one.__name__ for one in commands()})
    assert sorted(help.COMMANDS) == sorted(cli.COMMANDS)


def test_numbers_and_names_in_the_help_are_those_of_the_program() -> None:
    assert f"default: {PIDS_LIMIT})" in help.usage(Run_, Run_.command)
    seconds = DockerRecord._field_defaults["stop_timeout"]
    assert f"SIGKILL (default: {seconds})" in help.usage(StopFlags, StopFlags.command)
    assert f": {', '.join(recipe.names())}\n" in help.usage(Images, Images.command)
    assert f"[{'|'.join(timeslice.SLICES)}]" in help.usage(
        sharing.Timeslice, sharing.Timeslice.command
    )
    assert f"({ROOT}, " in help.usage(cli.GlobalFlags, cli.GlobalFlags.command)
    assert f"({STORE}, " in help.usage(cli.GlobalFlags, cli.GlobalFlags.command)
    assert all(
        f"\n  {name} " in help.usage(gpu.GpuCommand, gpu.GpuCommand.command)
        for name in gpu.COMMANDS
    )
