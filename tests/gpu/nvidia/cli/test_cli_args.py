"""Reading nvidia-container-cli's arguments."""

import pytest

from minirun.core.errors import UsageError
from minirun.gpu.asked.request import CAPABILITIES, NvidiaRequest
from minirun.gpu.nvidia.cli.cli_args import HELP, OPTIONS, options, parse

WALK_THROUGH = (
    "--load-kmods configure --ldconfig=@/sbin/ldconfig.real --no-cgroups --utility --device 0 /r"
)


def test_the_walk_through_of_the_seeds() -> None:
    request = parse(WALK_THROUGH.split()).request
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
    assert parse(short).request == parse(long).request
    assert parse(short).request.pid == 7


def test_every_option_reaches_the_request_or_the_words() -> None:
    """No option is read and then lost, but the driver's name, which stands beside the request."""
    lists = {"--device": "devices", "--imex-channel": "imex_channels", "--require": "requirements"}
    for command in OPTIONS:
        rows = (row for row in options(command) if row.name not in (*HELP, "--gpu-driver"))
        for option in rows:
            word = f"{option.name}=7" if option.has_value else option.name
            line = parse(
                [word, "info"]
                if not command
                else [command, word, "/r"][: 2 + (command == "configure")]
            )
            name = option.name[2:]
            field = lists.get(option.name, name.replace("-", "_"))
            if name in CAPABILITIES:
                assert line.request.capabilities == (name,)
            elif field in NvidiaRequest._fields:
                assert getattr(line.request, field) in (True, "7", 7, ("7",)), option
            else:
                assert command in ("info", "list") and word in line.words


def test_lists_grow_and_empty_items_fall_out() -> None:
    request = parse(
        ["configure", "--device=0,,1", "--device=2", "--require=a,b", "--require=c", "/r"]
    ).request
    assert request.devices == ("0", "1", "2")
    assert request.requirements == ("a,b", "c")


@pytest.mark.parametrize(
    ("words", "culprit"),
    (
        ("", "Usage: nvidia-container-cli [OPTION...] COMMAND [ARG...]"),
        ("configure", "Usage: nvidia-container-cli configure [OPTION...] ROOTFS"),
        ("list /r", "Usage: nvidia-container-cli list [OPTION...]"),
        ("configure /r /s", "Usage: nvidia-container-cli configure [OPTION...] ROOTFS"),
        ("configure --foo /r", "unrecognized option '--foo'"),
        ("--compute configure /r", "unrecognized option '--compute'"),
        ("configure --load-kmods /r", "unrecognized option '--load-kmods'"),
        ("configure -x /r", "invalid option -- 'x'"),
        ("configure --compute=1 /r", "option '--compute' doesn't allow an argument"),
        ("configure /r --device", "option '--device' requires an argument"),
        ("configure --pid=1_0 /r", "input error: parse pid failed: invalid argument"),
        ("configure --pid=١ /r", "input error: parse pid failed: invalid argument"),
        ("configure --pid=2147483648 /r", "parse pid failed: numerical result out of range"),
    ),
)
def test_errors_name_the_culprit(words: str, culprit: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(words.split())
    assert culprit in str(caught.value)
