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
            ("run IMAGE, with docker's profile", "runc spec's config.json, without a profile",
             "GPUs 0,1 add", "to minirun, ubuntu", "to minirun, new image", "GPUs all add",
             "run ID / run -b", "the log costs"),
        ),
        (
            "with_engines", ("--containers", "2"),
            ("create + start + delete", "delete ", "state", "exec", "kill",
             "20 workers, lives a second",
             "processor time of a life", "list of 2", "podman run --rm", "podman exec"),
        ),
        (
            "networks", ("--seconds", "0.2"),
            ("run --rm, --network none", "run --rm, bridge, one port", "run -d -p, first answer",
             "rm -f of it", "pyroute2, imported alone",
             "in a run, after clone", "container → host, MB/s"),
        ),
        ("observed", (), ("runc, observed", "crun, strace -f", "× alone")),
        (
            "many_machines", ("--gpus", "1"),
            ("3 containers run", "3 GPUs given", "node3 dies: Down after", "minirun with a GPU"),
        ),
    ],
)  # fmt: skip
def test_it_measures(name: str, flags: tuple[str, ...], said: tuple[str, ...]) -> None:
    argv = [sys.executable, str(BENCH / f"{name}.py"), "--runs", "1", *flags]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for words in said:
        assert words in done.stdout
