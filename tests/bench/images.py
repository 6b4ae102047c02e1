"""Unpacking an image, against `umoci unpack`: seconds in turns, their ratio, and the most memory.

    tests/bench/images.py [--megabytes 200] [--runs 5]

The image is one layer, gzip, of this machine's /usr/share. umoci makes one tree of it, minirun a
layer of its store; both check every digest.
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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from image.layouts import LayoutFolder

TOP = "/usr/share"


def archive(limit: int) -> bytes:
    """Return an archive of some files of this machine, about `limit` bytes."""
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for path in sorted(Path(TOP).rglob("*")):
                if path.is_file() and not path.is_symlink():
                    tar.add(path, str(path)[1:])
                if file.tell() > limit:
                    break
        file.seek(0)
        return file.read()


def make(place: Path, megabytes: int) -> None:
    """Make the layout."""
    LayoutFolder(place, archive(megabytes << 20))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    minirun = Path(sys.executable).with_name("minirun")
    with tempfile.TemporaryDirectory(prefix="minirun-bench-", dir="/var/tmp") as name:
        place = Path(name)
        maker = multiprocessing.Process(target=make, args=(place / "layout", options.megabytes))
        maker.start()  # a process of its own: a child's peak begins with its parent's size
        maker.join()
        layout = f"{place}/layout:test"
        commands = {
            "umoci": ["umoci", "unpack", "--image", layout, str(place / "out")],
            "minirun": [str(minirun), "image", "unpack", layout, str(place / "out")],
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        peaks = dict.fromkeys(commands, 0)
        for _ in range(options.runs):
            for name, argv in commands.items():
                start = time.monotonic()
                running = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
                _, status, used = os.wait4(running.pid, 0)
                assert status == 0, argv
                seconds[name].append(time.monotonic() - start)
                peaks[name] = max(peaks[name], used.ru_maxrss >> 10)
                shutil.rmtree(place / "out")
    own, other = (statistics.median(seconds[name]) for name in ("minirun", "umoci"))
    print(
        f"image unpack, {options.megabytes} MB: {own:.2f} s, umoci {other:.2f} s: {own / other:.2f}"
    )
    print(f"most memory: {peaks['minirun']} MB, umoci {peaks['umoci']} MB")


if __name__ == "__main__":
    main()
