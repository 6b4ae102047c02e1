"""Makes minirun/recordings: runs real containers, with snapshots, and keeps their logs.

    sudo make recordings                           (needs the images busybox and ubuntu)
    sudo .venv/bin/python tests/recordings/make.py first-run       (some of them, by name)

The last one is no log but what a terminal showed: first-run.cast, for the README's picture.
Nothing is changed in what was logged. The containers live below /run/minirun-demo and the image
comes from the standard store, so that no path of a checkout or of a home directory occurs; this
program fails where one does. Figure 1's three logs are laid into one file in the order of time.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import typed

from minirun.common import mountinfo
from minirun.core.places import EVENTS, HISTORY
from minirun.fast import launcher
from minirun.recordings import path

CHECKOUT = Path(__file__).parents[2]
ROOT = Path("/run/minirun-demo")
BIN = Path("/run/minirun-demo.bin")
MINIRUN = BIN / "minirun"
GPUS = ("--gpu-driver=simulated", "--gpus")
FAILING_HOOK = {
    "path": "/bin/sh",
    "args": ["sh", "-c", "echo no licence for this machine >&2; exit 3"],
    "env": ["PATH=/usr/bin:/bin"],
}


def argv(*args: str) -> list[str]:
    return [str(MINIRUN), "--root", str(ROOT), *args]


def minirun(*args: str, status: int = 0) -> str:
    """Run the program; return its standard output."""
    done = subprocess.run(argv(*args), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != status:
        sys.exit(f"minirun {' '.join(args)}: exit status {done.returncode}, not {status}")
    return done.stdout


def keep(name: str, *containers: str) -> None:
    """Write the logs of containers that have gone to the recording `name`."""
    lines = []
    for container in containers:
        (log,) = (ROOT / HISTORY).glob(f"*.{container}.jsonl")
        lines += log.read_text().splitlines(keepends=True)
    if len(containers) > 1:
        lines.sort(key=lambda line: json.loads(line)["t"])
    text = "".join(lines)
    for private in (f"{CHECKOUT}/", f"{Path.home()}/"):
        if private in text:
            sys.exit(f"{name}: {private} occurs in it")
    path(name).write_text(text)
    print(f"{path(name)}: {len(lines)} events, {len(text)} bytes")


def plain() -> None:
    minirun("run", "--rm", "--snapshots", "--name", "plain", "busybox", "echo", "hello")
    keep("plain", "plain")


def gpus() -> None:
    command = ("busybox", "sh", "-c", "ls -l /dev; nvidia-smi -L")
    minirun("run", "--rm", "--snapshots", "--name", "gpus-0-1", *GPUS, "0,1", *command)
    keep("gpus-0-1", "gpus-0-1")


def figure_1() -> None:
    """Three containers that live at the same time and share GPUs 0 and 3."""
    wishes = {"a": "0,1", "b": "0,2,3", "c": "3"}
    flags = ("run", "-d", "--snapshots", *GPUS)
    started = []
    for name, gpus in wishes.items():
        started.append(
            subprocess.Popen(argv(*flags, gpus, "--name", name, "busybox", "sleep", "60"))
        )
        log = ROOT / name / EVENTS
        while not (log.exists() and log.stat().st_size):
            time.sleep(0.001)  # one after the other, and yet at the same time
    assert not any(process.wait() for process in started)
    assert set(minirun("ps", "-q").split()) == set(wishes), "all three live"
    for name in wishes:
        minirun("delete", "--force", name)
    keep("figure-1", *wishes)


def failing_hook() -> None:
    config = json.loads(minirun("spec", "--name", "failing-hook", "busybox", "true"))
    config["hooks"] = {"prestart": [FAILING_HOOK]}
    bundle = ROOT / ".bundle"
    (bundle / "rootfs").mkdir(mode=0o700, parents=True)
    (bundle / "config.json").write_text(json.dumps(config))
    minirun("run", "--bundle", str(bundle), "failing-hook", status=1)
    keep("failing-hook", "failing-hook")


def first_run() -> None:
    """The README's picture: the first command, typed into a terminal."""
    command = "minirun run --rm --gpus 0,1 ubuntu sh -c 'ls -l /dev/nvidia*; nvidia-smi -L'"
    target = CHECKOUT / "tutorials/pictures/first-run.cast"
    minirun("run", "--rm", "ubuntu", "true")  # the image is made or fetched before
    cast = typed.record(command, {"PATH": f"{BIN}:/usr/bin:/bin", "MINIRUN_ROOT": str(ROOT)})
    for private in (str(CHECKOUT), str(Path.home()), os.uname().nodename):
        if re.search(rf"(?<!\w){re.escape(private)}(?!\w)", cast):
            sys.exit(f"{target}: {private} occurs in it")
    target.write_text(cast)
    print(f"{target}: {len(cast)} bytes")


RECORDS = {
    "plain": plain, "gpus-0-1": gpus, "figure-1": figure_1, "failing-hook": failing_hook,
    "first-run": first_run,
}  # fmt: skip


def plain_surroundings() -> None:
    """Go where a plain Debian machine's mounts and cgroups are: what else this one has is its own.

    The program starts again in a mount namespace, without the mounts that no machine needs.
    """
    if os.environ.get("SURROUNDINGS") != "plain":
        again = ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv]
        os.execvpe(again[0], again, {**os.environ, "SURROUNDINGS": "plain"})
    for point in sorted({m.mount_point for m in mountinfo.read()}, reverse=True):
        if not re.fullmatch(r"/|/(dev|proc|sys|run|tmp)(/(pts|shm|mqueue|fs/cgroup.*))?", point):
            subprocess.run(["umount", "--lazy", point], check=True)
    for hierarchy in Path("/sys/fs/cgroup").glob("*/cgroup.procs"):
        hierarchy.write_text(str(os.getpid()))


def main() -> None:
    plain_surroundings()
    for directory in (ROOT, BIN):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o711)
    launcher.install(str(MINIRUN))  # the file that holds its code is open while it runs
    wanted = sys.argv[1:] or RECORDS
    for name in wanted:
        RECORDS[name]()
    shutil.rmtree(ROOT)
    shutil.rmtree(BIN)


if __name__ == "__main__":
    main()
