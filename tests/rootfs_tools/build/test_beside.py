"""What looks at all containers or images, beside runs and builds: no half of one is an error."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import Program

TIMES = int(os.environ.get("MINIRUN_MOMENTS") or 5)
"""How often each is called."""
READERS = (
    ("image", "gc"), ("gc",), ("ps", "-a"), ("list", "-q"), ("system", "df"), ("gpu", "ps"),
    ("timeline",), ("images",),
)  # fmt: skip


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_no_reader_fails_beside_runs_and_builds(
    builder: Program, context: Path, words: tuple[str, ...]
) -> None:
    (context / "Dockerfile").write_text("FROM base\nRUN echo 1 > /one\nCOPY . /x\n")
    over = threading.Event()
    runs: list[str] = []

    def work(*args: str) -> None:
        while not over.is_set():
            done = builder(*args)
            runs.append(done.stderr if done.returncode else "")
            time.sleep(0.1)  # `image gc` waits until no build is at work

    gpus = ("--gpus", "0", "--gpu-driver=simulated") if words[0] == "gpu" else ()
    with ThreadPoolExecutor(3) as pool:
        for args in (
            ("run", "--rm", *gpus, "busybox", "true"), ("run", "--rm", "base", "true"),
            ("build", "-q", "--no-cache", "-t", "x", str(context)),
        ):  # fmt: skip
            pool.submit(work, *args)
        try:
            found = [builder(*words) for _ in range(TIMES)]
        finally:
            over.set()
    faults = [each.stderr for each in found if each.returncode]
    assert faults == []
    said = {line for each in found for line in each.stderr.splitlines()}
    assert not [line for line in said if not line.startswith("minirun: waiting for a build")], said
    assert [text for text in runs if text] == []
    assert len(runs) > 2
