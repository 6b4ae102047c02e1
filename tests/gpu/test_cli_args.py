"""Reading nvidia-container-cli's arguments."""

import pytest

from minirun.errors import UsageError
from minirun.gpu.cli_args import parse

WALK_THROUGH = (
    "--load-kmods configure --ldconfig=@/sbin/ldconfig.real --no-cgroups --utility --device 0 /r"
)


def test_the_walk_through_of_the_seeds() -> None:
    request = parse(WALK_THROUGH.split())
    assert request.load_kmods and request.no_cgroups
    assert request.ldconfig == "@/sbin/ldconfig.real"
    assert request.capabilities == ("utility",)
    assert request.devices == ("0",)
    assert request.rootfs == "/r"


def test_letters_and_long_names_are_the_same() -> None:
    short = ["-k", "-d/log", "configure", "-p", "7", "-d0,1", "-r", "cuda>=1", "/r"]
    short[3:3] = ["-c", "-u", "-v", "-g", "-D", "-n"]
    long = ["--load-kmods", "--debug=/log", "configure", "--pid=7", "--device=0,1"]
    long += ["--compute", "--utility", "--video", "--graphics", "--display", "--ngx"]
    long += ["--require=cuda>=1", "/r"]
    assert parse(short) == parse(long)
    assert parse(short).pid == 7


def test_lists_grow_and_empty_items_fall_out() -> None:
    request = parse(
        ["configure", "--device=0,,1", "--device=2", "--require=a", "--require=b", "/r"]
    )
    assert request.devices == ("0", "1", "2")
    assert request.requirements == ("a", "b")


@pytest.mark.parametrize(
    ("words", "culprit"),
    (
        ("", "configure is missing"),
        ("configure", "root filesystem is missing"),
        ("list /r", "configure is missing"),
        ("configure /r /s", "too many arguments: /s"),
        ("configure --foo /r", "unrecognized option --foo"),
        ("--compute configure /r", "unrecognized option --compute"),
        ("configure --load-kmods /r", "unrecognized option --load-kmods"),
        ("configure -x /r", "unrecognized option -x"),
        ("configure --compute=1 /r", "option --compute takes no value"),
        ("configure /r --device", "option --device needs a value"),
        ("configure --pid=1_0 /r", "--pid=1_0 is no process id"),
        ("configure --pid=-1 /r", "--pid=-1 is no process id"),
        ("configure --pid=١ /r", "--pid=١ is no process id"),
        ("configure --pid=99999999999 /r", "--pid=99999999999 is no process id"),
    ),
)
def test_errors_name_the_culprit(words: str, culprit: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(words.split())
    assert culprit in str(caught.value)
