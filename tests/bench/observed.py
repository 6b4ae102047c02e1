"""What it costs to watch runc and crun: `minirun observe`, and strace of every call, in one run.

    tests/bench/observed.py [--runs 20]

"until it ends" is the whole command, with strace's end, the inference and what is printed.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import run as bench  # this folder's


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        minirun = bench.launcher_in(directory)
        bundle = bench.make_bundle(directory, minirun)
        commands = {}
        for peer in ("runc", "crun"):
            if shutil.which(peer) and bench.works(peer, bundle):
                run = f"{peer} run -b {bundle} bench-{peer}"
                observe = f"{directory / 'minirun'} observe -o {directory / 'seen.jsonl'}"
                commands[peer] = run
                commands[f"{peer}, observed"] = f"{observe} --level summary -- {run}"
                commands[f"{peer}, strace -f"] = f"strace -f -o {directory / 'all'} {run}"
        found = bench.medians(commands, runs, directory, bench.HIDE_UNIFIED)
    for name, median in found.items():
        alone = found[name.partition(",")[0]]
        print(f"{name:<20} {median * 1000:7.1f} ms until it ends   {median / alone:5.2f} × alone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
