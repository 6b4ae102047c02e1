"""How fast minirun is as an engine's runtime, beside runc in the same hyperfine run.

    create + start + delete of /bin/true; delete of it once it has ended; state of a running
    container, exec of /bin/true in it, kill with a signal that it ignores; twenty workers, each
    with lives of create, start, state, kill and delete; podman run --rm, podman exec; list of many
    containers

The commands take turns (see run.py). Every number is a ratio against runc. The config.json has
docker's profile of system calls, which costs both the same time.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pytest
import run as bench  # this folder's

from engines.clients.engine import IMAGE, Podman
from minirun.core.kernel import process
from minirun.fast import launcher


def main() -> int:
    """Measure, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--containers", type=int, default=200)
    args = parser.parse_args()
    runs = args.runs
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        path = directory / "minirun"
        launcher.install(str(path))
        bundle = bench.make_bundle(directory, f"{path} --store {bench.STORE}")
        runtimes = {"minirun": f"{path} --root {directory}/m", "runc": f"runc --root {directory}/r"}
        begin = "{0} create -b {1} bench && {0} start bench"
        lives, begun = (
            {name: f"sh -c '{words.format(rt, bundle)}'" for name, rt in runtimes.items()}
            for words in (f"{begin} && {{0}} delete --force bench", f"{begin} && sleep 0.1")
        )
        _compare("create + start + delete", lives, runs, directory)
        ends = {name: f"{rt} delete bench" for name, rt in runtimes.items()}
        _compare("delete", ends, runs, directory, begun)
        _state(runtimes, bundle, runs, directory)
        _workers(runtimes, bundle, runs)
        _list(runtimes["minirun"], directory, bundle, args.containers)
        try:
            _podman(str(path), runs)
        except pytest.skip.Exception as reason:
            print(f"podman run --rm, podman exec: not measured: {reason}")
    return 0


def _compare(
    what: str, commands: dict[str, str], runs: int, directory: Path,
    prepare: dict[str, str] | None = None,
) -> None:  # fmt: skip
    """Run the commands in turns and print the medians and their ratio. `prepare`: as medians."""
    found = bench.medians(commands, runs, directory, prepare=prepare)
    ours, theirs = (found[name] * 1000 for name in ("minirun", "runc"))
    print(f"{what:<26} minirun {ours:7.1f} ms   runc {theirs:7.1f} ms   {ours / theirs:.2f}")


def _state(runtimes: dict[str, str], bundle: Path, runs: int, directory: Path) -> None:
    _sleepy(bundle)
    for runtime in runtimes.values():
        for words in (f"create -b {bundle} still", "start still"):
            subprocess.run([*runtime.split(), *words.split()], check=True)
    for what, words in (
        ("state", "state still"), ("exec", "exec still /bin/true"), ("kill", "kill still CONT"),
    ):  # fmt: skip
        commands = {name: f"{runtime} {words}" for name, runtime in runtimes.items()}
        _compare(what, commands, runs, directory)
    for runtime in runtimes.values():
        subprocess.run([*runtime.split(), "delete", "--force", "still"], check=True)


def _sleepy(bundle: Path) -> None:
    path = bundle / "config.json"
    config = json.loads(path.read_text())
    config["process"]["args"] = ["sleep", "1000"]
    path.write_text(json.dumps(config))


def _workers(runtimes: dict[str, str], bundle: Path, runs: int) -> None:
    """Let twenty workers make containers at once: lives a second, and processor time of a life.

    This process is the subreaper of what they leave, so that init's time is counted too.
    """
    process.prctl(process.PR_SET_CHILD_SUBREAPER, 1)
    lives, seconds, spent = 20 * max(1, runs // 20), dict.fromkeys(runtimes, 0.0), {}
    for name in [*runtimes, *reversed(runtimes)]:
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        with ThreadPoolExecutor(20) as pool:
            for done in [pool.submit(_life, runtimes[name], bundle, n) for n in range(lives)]:
                done.result()
        seconds[name] += time.monotonic() - start
        _reap()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        spent[name] = spent.get(name, 0.0) + cpu
    ours, theirs = (2 * lives / seconds[name] for name in ("minirun", "runc"))
    what = "20 workers, lives a second"
    print(f"{what:<26} minirun {ours:7.1f}      runc {theirs:7.1f}      {ours / theirs:.2f}")
    ours, theirs = (spent[name] * 1000 / 2 / lives for name in ("minirun", "runc"))
    what = "processor time of a life"
    print(f"{what:<26} minirun {ours:7.1f} ms   runc {theirs:7.1f} ms   {ours / theirs:.2f}")


def _reap() -> None:
    """Wait for all that the workers have left."""
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        pass


def _life(runtime: str, bundle: Path, number: int) -> None:
    name = f"life{number}"
    for words in (
        f"create -b {bundle} {name}", f"start {name}", f"state {name}", f"kill {name} KILL",
        f"delete --force {name}",
    ):  # fmt: skip
        argv = [*runtime.split(), *words.split()]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _list(runtime: str, directory: Path, bundle: Path, count: int) -> None:
    """Create, start, list, kill and delete so many containers."""
    names = [f"many{number}" for number in range(count)]
    argv = runtime.split()
    for name in names:
        subprocess.run([*argv, "create", "-b", str(bundle), name], check=True)
        subprocess.run([*argv, "start", name], check=True)
    out = directory / "times.json"
    words = ["hyperfine", "-N", "-w", "1", "-r", "10", "--export-json", str(out), f"{runtime} list"]
    subprocess.run(words, check=True, capture_output=True)
    median = statistics.median(bench.wall_times(json.loads(out.read_text())["results"][0])) * 1000
    for name in names:
        subprocess.run([*argv, "kill", name, "KILL"], check=True)
        subprocess.run([*argv, "delete", "--force", name], check=True)
    left = subprocess.run([*argv, "list", "-q"], check=True, capture_output=True, text=True).stdout
    print(f"list of {count:<19} minirun {median:7.1f} ms   left afterwards: {left!r}")


def _podman(minirun: str, runs: int) -> None:
    """`podman run --rm` without a network, `podman exec`; each runtime in a cell of its own."""
    engines = {name: Podman(name, minirun) for name in ("minirun", "runc")}
    try:
        names = {name: engine.detached() for name, engine in engines.items()}
        for what in ("run --rm", "exec"):
            commands = {
                name: " ".join(
                    engine.cell.argv(
                        "env", *(f"{k}={v}" for k, v in engine.env.items()), *engine.client,
                        *what.split(),
                        *((names[name],) if what == "exec" else ("--network=none", IMAGE)), "true",
                    )
                )
                for name, engine in engines.items()
            }  # fmt: skip
            _compare(f"podman {what}", commands, runs, engines["runc"].home)
        for engine in engines.values():
            engine.clean()
    finally:
        for engine in engines.values():
            engine.close()


if __name__ == "__main__":
    sys.exit(main())
