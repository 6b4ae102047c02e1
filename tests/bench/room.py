"""A class: many users of one machine, who all start their containers at the same time.

    tests/bench/room.py [--users 30] [--rounds 3]

Three times: as root, each with a state root of their own and two SIMULATED GPUs; as so many users
without privileges, each with a bundle, in a user namespace; and on the ladder, where each checks
their own program of level 5. Each starts some containers, or checks, one after the other, and every
one prints its user's number. What is printed here: errors, the longest wait, and what was left
behind.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from minirun.core.keeping.places import STORE
from minirun.core.kernel import mountinfo
from minirun.engines import roots
from minirun.faces.teach.levels import programs
from minirun.fast import launcher

FIRST_UID = 54400
_ROUNDS = """
for round in $(seq ROUNDS); do
    began=$(date +%s%N)
    said=$("$@" 2>&1) || { echo "error $said"; exit 1; }
    [ "$said" = WHO ] || { echo "error it said: $said"; exit 1; }
    echo "took $((($(date +%s%N) - began) / 1000000))"
done
"""


class Report(NamedTuple):
    """What came of a class."""

    errors: list[str]
    waits: list[float]
    """Seconds that each container took, from the command to its end."""
    wall: float
    """Seconds until all had finished."""
    memory: int
    """MB that were used at most, beyond those before."""
    left: list[str]
    """Mounts, cgroups and processes that are still there."""

    def __str__(self) -> str:
        worst, usual = max(self.waits, default=0), statistics.median(self.waits or [0])
        return (
            f"{len(self.waits)} in {self.wall:.1f} s, each in {usual:.2f} s (median), "
            f"{worst:.2f} s (longest); {self.memory} MB more memory; "
            f"{len(self.errors)} errors, {len(self.left)} left"
        )


@contextmanager
def place() -> Iterator[Path]:
    """Make a folder into which every user may look, with the program in it."""
    folder = Path(tempfile.mkdtemp(prefix="minirun-room."))
    folder.chmod(0o755)
    launcher.install(str(folder / "minirun"))
    try:
        yield folder
    finally:
        for root in folder.glob("root-*"):
            Path(roots.entry_of(STORE, str(root))).unlink(missing_ok=True)
        shutil.rmtree(folder)


def as_root(folder: Path, users: int, rounds: int) -> Report:
    """Let that many users be root, each with a state root."""
    minirun = folder / "minirun"
    commands = []
    for number in range(users):
        words = ["run", "--rm", "--quiet", "--gpu-driver=simulated", "--gpus=0,1",
                 "--name", f"room-{number}", "busybox", "echo", str(number)]  # fmt: skip
        text = f"{minirun} --root {folder}/root-{number} {' '.join(words)}"
        commands.append(_shell(rounds, number, ["sh", "-c", text]))
    return _all_at_once(folder, commands)


def on_the_ladder(folder: Path, users: int, rounds: int) -> Report:
    """Let that many users check a level's program, each one's own copy of it."""
    level = programs.find("5")
    commands = []
    for number in range(users):
        home = folder / f"home-{number}"
        home.mkdir()
        for name in (level.file, programs.LIBRARY):
            shutil.copy(programs.folder() / name, home)
        check = f"{folder}/minirun --root {folder}/root-{number} level check 5 {home}/{level.file}"
        text = f'said=$({check}) && echo {number} || {{ echo "$said"; exit 1; }}'
        commands.append(_shell(rounds, number, ["sh", "-c", text]))
    return _all_at_once(folder, commands)


def without_privileges(folder: Path, users: int, rounds: int) -> Report:
    """Let that many users, with numbers of their own, start a bundle each."""
    minirun = folder / "minirun"
    rootfs = folder / "rootfs"
    _busybox(minirun, rootfs)
    commands = []
    for number in range(users):
        uid = FIRST_UID + number
        home = folder / f"home-{number}"
        home.mkdir()
        os.chown(home, uid, uid)
        who = ["env", "-i", f"HOME={home}", f"PATH={os.defpath}:/usr/sbin", "setpriv",
               f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all"]  # fmt: skip
        _bundle(home, [*who, str(minirun)], rootfs, number)
        text = f"exec {minirun} run --bundle {home} room-{number}"
        commands.append(_shell(rounds, number, [*who, "sh", "-c", text]))
    return _all_at_once(folder, commands)


def _busybox(minirun: Path, rootfs: Path) -> None:
    """Unpack a root filesystem that everybody may read, with places for the mounts."""
    for name in ("dev", "proc", "sys", "tmp"):
        (rootfs / name).mkdir(parents=True, exist_ok=True)
    run = f"{minirun} --root {rootfs.parent}/root-0 run --rm --quiet busybox"
    subprocess.run(["sh", "-c", f"{run} tar c bin | tar x -C {rootfs}"], check=True)


def _bundle(home: Path, program: list[str], rootfs: Path, number: int) -> None:
    """Write config.json as the user would: `spec --rootless`, then a command."""
    said = subprocess.run([*program, "spec", "--rootless"], cwd=home, check=True,
                          capture_output=True, text=True).stdout  # fmt: skip
    file = home / "config.json"
    config = json.loads(file.read_text() if file.exists() else said)
    config["process"] |= {"terminal": False, "args": ["echo", str(number)]}
    config["root"] = {"path": str(rootfs), "readonly": True}
    file.write_text(json.dumps(config))


def _shell(rounds: int, number: int, command: list[str]) -> list[str]:
    """Return a command that starts a container `rounds` times, and says how long each took."""
    loop = _ROUNDS.replace("ROUNDS", str(rounds)).replace("WHO", str(number))
    return ["sh", "-c", loop, "sh", *command]


def _all_at_once(folder: Path, commands: list[list[str]]) -> Report:
    used = _used()
    began = time.monotonic()
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        for command in commands
    ]
    most = used
    while any(each.poll() is None for each in started):
        most = max(most, _used())
        time.sleep(0.05)
    wall = time.monotonic() - began
    rows = [row for each in started for row in each.communicate()[0].splitlines()]
    waits = [int(row.split()[1]) / 1000 for row in rows if row.startswith("took ")]
    errors = [row for row in rows if not row.startswith("took ")]
    kept = [str(each) for each in folder.glob("root-*/[!.]*")]
    return Report(errors, waits, wall, (most - used) // 1024, kept + _left(folder))


def _left(folder: Path) -> list[str]:
    """Return the mounts below the folder, and the class's cgroups: others are at work beside it."""
    found = [m.mount_point for m in mountinfo.read() if m.mount_point.startswith(f"{folder}/")]
    for mount in mountinfo.read(fs_type="cgroup"):
        found += map(str, Path(mount.mount_point).glob("minirun/room-*"))
    return found


def _used() -> int:
    """Return the memory in use, in kB: proc_meminfo(5)."""
    rows = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(rows["MemTotal"].split()[0]) - int(rows["MemAvailable"].split()[0])


def main() -> int:
    """Measure both, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    failed = 0
    for name, many in (
        ("as root", as_root), ("without privileges", without_privileges),
        ("on the ladder", on_the_ladder),
    ):  # fmt: skip
        with place() as folder:
            report = many(folder, asked.users, asked.rounds)
        print(f"{asked.users} users {name}: {report}")
        for line in [*report.errors, *report.left]:
            print(f"  {line}")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
