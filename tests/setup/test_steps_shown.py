"""What a terminal shows while an image is made of packages, by the real mmdebstrap."""

import signal
from pathlib import Path

import pytest

from conftest import Program, wait_until
from engines.clients.screen import Screen

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]
PATIENCE = 90


@pytest.fixture
def unreachable(tmp_path: Path) -> dict[str, str]:
    """An environment in which docker.io cannot be reached, so that a recipe is used."""
    conf = tmp_path / "registries.conf"
    conf.write_text('[[registry]]\nprefix = "docker.io"\nlocation = "127.0.0.1:1"\n')
    return {"CONTAINERS_REGISTRIES_CONF": str(conf)}


def begin(minirun: Program, store: Path, env: dict[str, str], *flags: str) -> Screen:
    return Screen(minirun.at(store).argv("run", "--rm", *flags, "debian", "true"), env)


def interrupted(screen: Screen) -> str:
    screen.child.send_signal(signal.SIGINT)
    seen = screen.rest()
    assert screen.wait() != 0
    return seen


def test_steps_in_one_line_which_goes(
    minirun: Program, tmp_path: Path, unreachable: dict[str, str]
) -> None:
    screen = begin(minirun, tmp_path / "store", unreachable)
    seen = screen.expect("\r\x1b[K", PATIENCE) + screen.expect("...\r", PATIENCE)
    steps = (seen + interrupted(screen)).split("\r\x1b[K")[1:]
    assert all(step.endswith("\r") and "\n" not in step for step in steps[:-1])
    assert steps[-1].startswith("\r"), "the last step is taken away"


@pytest.mark.parametrize("flags", [("-q",), ("--progress", "quiet")])
def test_quiet_means_none(
    minirun: Program, tmp_path: Path, unreachable: dict[str, str], flags: tuple[str, ...]
) -> None:
    screen = begin(minirun, tmp_path / "store", unreachable, *flags)
    seen = screen.expect("building debian", PATIENCE)
    wait_until(lambda: any((tmp_path / "store").glob("**/tree/var/lib/dpkg")), PATIENCE)
    assert "\x1b[K" not in seen + interrupted(screen), "though steps have been made"
