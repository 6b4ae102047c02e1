"""The benchmarks run to their end. What they measure is for people to look at: `make bench`."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parent


@pytest.mark.parametrize(
    ("name", "flags", "said"),
    [
        (
            "run", (),
            ("minirun / runc", "GPUs 0,1 add", "to the first container", "GPUs all add",
             "the profile costs", "ms in runc", "the log costs"),
        ),
        (
            "with_engines", ("--containers", "2"),
            ("create + start + delete", "state", "exec", "list of 2", "podman run --rm",
             "podman exec"),
        ),
        ("observed", (), ("runc, observed", "crun, strace -f", "× alone")),
    ],
)  # fmt: skip
def test_it_measures(name: str, flags: tuple[str, ...], said: tuple[str, ...]) -> None:
    argv = [sys.executable, str(BENCH / f"{name}.py"), "--runs", "1", *flags]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for words in said:
        assert words in done.stdout
