"""Images, against their peers: seconds in turns, the ratio, and the most memory.

    tests/bench/images.py [--megabytes 200] [--layers 8] [--runs 5]

unpack: `minirun image unpack` and `umoci unpack` make a bundle of a layout with one layer, gzip, of
this machine's /usr/share. pull: `minirun pull` from a registry on loopback, and `skopeo copy` with
`umoci unpack`; the same files, in layers. All check every digest.
"""

import argparse
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from tests.rootfs_tools.layouts import LayoutFolder  # noqa: E402
from tests.rootfs_tools.registry import real  # noqa: E402

TOP = "/usr/share"
PLAIN, TRUSTED = "--dest-tls-verify=false", "--src-tls-verify=false"
Commands = Mapping[str, list[list[str]]]
"""What a program runs, one command after the other."""


def archives(limit: int, count: int) -> list[bytes]:
    """Return archives of some files of this machine, about `limit` bytes in all."""
    found: list[bytes] = []
    paths = (p for p in sorted(Path(TOP).rglob("*")) if p.is_file() and not p.is_symlink())
    while len(found) < count:
        with tempfile.TemporaryFile() as file:
            with tarfile.open(fileobj=file, mode="w") as tar:
                for path in paths:
                    tar.add(path, str(path)[1:])
                    if file.tell() > limit // count:
                        break
            file.seek(0)
            found.append(file.read())
    return found


def make(place: Path, megabytes: int, layers: int) -> None:
    """Make the layout."""
    LayoutFolder(place, *archives(megabytes << 20, layers))


def made(place: Path, megabytes: int, layers: int) -> Path:
    """Make the layout in a process of its own: a child's peak begins with its parent's size."""
    maker = multiprocessing.Process(target=make, args=(place, megabytes, layers))
    maker.start()
    maker.join()
    return place


def in_turns(what: str, commands: Commands, out: Path, runs: int) -> None:
    """Print how long the two take, which make `out`, and their most memory."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    peaks = dict.fromkeys(commands, 0)
    for _ in range(runs):
        for name, argvs in commands.items():
            out.mkdir()
            start = time.monotonic()
            for argv in argvs:
                running = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
                _, status, used = os.wait4(running.pid, 0)
                assert status == 0, argv
                peaks[name] = max(peaks[name], used.ru_maxrss >> 10)
            seconds[name].append(time.monotonic() - start)
            shutil.rmtree(out)
    (own, mine), (other, theirs) = ((n, statistics.median(seconds[n])) for n in commands)
    print(f"{what}: {own} {mine:.2f} s, {other} {theirs:.2f} s: {mine / theirs:.2f}")
    print(f"most memory: {own} {peaks[own]} MB, {other} {peaks[other]} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    minirun = str(Path(sys.executable).with_name("minirun"))
    size = options.megabytes
    with tempfile.TemporaryDirectory(prefix="minirun-bench-", dir="/var/tmp") as name:
        place, out = Path(name), Path(name, "out")
        layout = f"{made(place / 'layout', size, 1)}:test"
        commands = {
            "minirun": [[minirun, "image", "unpack", layout, f"{out}/bundle"]],
            "umoci": [["umoci", "unpack", "--image", layout, f"{out}/bundle"]],
        }
        in_turns(f"image unpack, {size} MB", commands, out, options.runs)
        layers = made(place / "layers", size, options.layers)
        with real.registry(place / "registry") as host:
            real.fill(host, "bench:1", layers, PLAIN)
            copied = [f"docker://{host}/bench:1", f"oci:{out}/copied:1"]
            commands = {
                "minirun": [[minirun, "--store", str(out), "pull", "-q", f"{host}/bench:1"]],
                "skopeo and umoci": [
                    [
                        "skopeo",
                        "--insecure-policy",
                        "copy",
                        "-q",
                        "--src-tls-verify=false",
                        *copied,
                    ],
                    ["umoci", "unpack", "--image", f"{out}/copied:1", f"{out}/bundle"],
                ],
            }
            in_turns(f"pull, {options.layers} layers, {size} MB", commands, out, options.runs)


if __name__ == "__main__":
    main()
