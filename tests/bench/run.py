"""How fast minirun is, beside runc and crun, in one hyperfine run: `make bench`.

Every number is a ratio against a peer of the same run on the same machine; seconds alone say
nothing on a machine that others share. There are two ratios to runc, and each is named where it
stands: `run IMAGE` with docker's profile of system calls, which costs minirun and its peers the
same time, so that it hides a part of the difference; and `runc spec`'s own config.json, which has
no profile. The peers run the config.json that minirun makes, with busybox's root filesystem as
their root. The containers lie below $TMPDIR.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from minirun.core.keeping.places import STORE as DEFAULT_STORE
from minirun.fast import launcher
from rootfs_tools import catalogue

STORE = os.environ.get("MINIRUN_STORE", DEFAULT_STORE)
os.environ["MINIRUN_NETWORK"] = "none"  # as the peers' containers have it; networks.py has more

WARMUPS = 2
TRUE = "busybox /bin/true"
SPEC = "runc spec's config.json"
BESIDE, NAMED = "minirun, run ID in its folder", "minirun, run -b DIR ID there"
GPUS = {
    "GPUs 0,1": "--gpus 0,1",
    "GPUs all": "--gpus all -e NVIDIA_DRIVER_CAPABILITIES=all",
}
"""What the GPU rows ask for. NVIDIA's own chain adds 22 ms to a run of GPUs 0,1 where runc takes
19.5, which is 1.13 × that; measured on another machine."""

NEW_IMAGE = "bench-new"
"""Imported anew before each run of it: what an image's first container pays, and later ones do
not, is in these rows."""

HIDE_UNIFIED = (
    "unshare", "--mount", "sh", "-c",
    "umount /sys/fs/cgroup/unified 2>/dev/null; exec \"$@\"", "sh",
)  # fmt: skip
"""crun refuses a cgroup2 beside version 1's hierarchies, so the whole run does without it."""


def main() -> int:
    """Measure, and print a table; exit status 1 where --limit is given and exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=120)
    parser.add_argument("--limit", type=float, help="fail where minirun/runc is above this")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        _warn_of_slow_inodes(place)
        minirun = launcher_in(directory)
        commands = {"minirun": f"{minirun} run --rm {TRUE}"}
        bundle = make_bundle(directory, minirun)
        for peer in ("runc", "crun"):
            if shutil.which(peer) and works(peer, bundle):
                commands[peer] = f"{peer} run -b {bundle} bench-{peer}"
        if "runc" in commands:
            plain = plain_bundle(directory)
            for name, runtime in (("minirun", minirun), ("runc", "runc")):
                commands[f"{name}, {SPEC}"] = f"{runtime} run -b {plain} bench-{name}"
            for name, flag in ((BESIDE, ""), (NAMED, f"-b {plain} ")):
                commands[name] = f"env -C {plain} {minirun} run {flag}bench-here"
        for name, asked in GPUS.items():
            flags = f"--gpu-driver=simulated {asked}"
            commands[f"minirun, {name}"] = f"{minirun} run --rm {flags} {TRUE}"
        flags = f"--gpu-driver=simulated {GPUS['GPUs 0,1']}"
        commands["minirun, ubuntu"] = f"{minirun} run --rm ubuntu /bin/true"
        commands["minirun, ubuntu, GPUs 0,1"] = f"{minirun} run --rm {flags} ubuntu /bin/true"
        new, renew = _new_image(directory, minirun)
        for name, flags in (
            ("", ""),
            (", GPUs 0,1", f" --gpu-driver=simulated {GPUS['GPUs 0,1']}"),
        ):
            commands[f"minirun, new image{name}"] = f"{new} run --rm{flags} {NEW_IMAGE} /bin/true"
        for name, detail in (("minirun, log", "syscalls"), ("minirun, no log", "off")):
            commands[name] = f"env MINIRUN_LOG={detail} {commands['minirun']}"
        prepare = {name: renew for name in commands if "new image" in name}
        found = medians(commands, args.runs, directory, HIDE_UNIFIED, prepare)
        print(f"runtime's peak memory: {_peak(commands['minirun']):.1f} MB")
    return _report(found, args.limit)


def _warn_of_slow_inodes(place: str) -> None:
    """Tell where an ext4 without a journal makes every file dearer that a run makes.

    It passes over each inode that was freed in the last one to six minutes (recently_deleted in
    fs/ext4/ialloc.c). After a few thousand containers, as of `make test`, a new file costs 0.1 ms.
    A run makes about twenty, and fifty more with GPUs.
    """
    argv = ["findmnt", "-no", "FSTYPE,SOURCE", "--target", place]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    kind, source = done.stdout.splitlines()[-1].split()  # the last of several is the one on top
    journal = Path("/sys/fs/ext4", Path(source).name, "journal_task")
    if kind == "ext4" and journal.exists() and journal.read_text().strip() == "<none>":
        print(
            "the containers lie on an ext4 without a journal, where what was removed in the last"
            " minutes slows down what is made: rest before, or set TMPDIR",
            file=sys.stderr,
        )


def launcher_in(directory: Path) -> str:
    path = directory / "minirun"
    launcher.install(str(path))
    return f"{path} --root {directory / 'containers'} --store {STORE}"


def make_bundle(directory: Path, minirun: str) -> Path:
    """A bundle for the peers: the same config.json, on the image's directory, read-only."""
    argv = [*minirun.split(), "spec", *TRUE.split()]
    config = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    config["ociVersion"] = "1.0.2"
    return _bundle(directory / "bundle", config)


def plain_bundle(directory: Path) -> Path:
    """A bundle of the config.json that `runc spec` writes, but for its command and terminal."""
    subprocess.run(["runc", "spec", "-b", str(directory)], check=True)
    config = json.loads((directory / "config.json").read_text())
    config["process"] |= {"args": ["/bin/true"], "terminal": False}
    return _bundle(directory / "plain", config)


def _bundle(bundle: Path, config: dict[str, Any]) -> Path:
    layer = catalogue.resolve(STORE, "busybox").layers[0]
    shutil.copytree(layer, bundle / "rootfs", symlinks=True)  # a peer makes mount points in it
    config["root"] = {"path": "rootfs", "readonly": True}
    (bundle / "config.json").write_text(json.dumps(config))
    return bundle


def _new_image(directory: Path, minirun: str) -> tuple[str, str]:
    """Return minirun with a store of its own, and the command that imports NEW_IMAGE anew there."""
    layer = catalogue.resolve(STORE, "busybox").layers[0]
    subprocess.run(["tar", "-C", layer, "-cf", str(directory / "new.tar"), "."], check=True)
    own = minirun.replace(STORE, str(directory / "store"))
    images = f"{own} images"
    forget = f"rm -rf {directory}/store/layers {directory}/store/blobs"
    steps = f"{images} rm {NEW_IMAGE}; {forget}; {images} import {NEW_IMAGE} {directory}/new.tar"
    return own, f"sh -c '{{ {steps}; }} >{directory}/import.log 2>&1'"


def works(peer: str, bundle: Path) -> bool:
    argv = [*HIDE_UNIFIED, peer, "run", "-b", str(bundle), "bench-try"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    if done.returncode:
        print(f"{peer} is left out: {done.stderr.strip()}", file=sys.stderr)
    return done.returncode == 0


def medians(
    commands: dict[str, str],
    runs: int,
    directory: Path,
    around: tuple[str, ...] = (),
    prepare: dict[str, str] | None = None,
) -> dict[str, float]:
    """Return each command's median, in seconds; `around` is a command that hyperfine is run by.

    `prepare` has what is run, and not measured, before each run of some of the commands.

    The commands take turns, run by run: a machine that others share is a third slower in one second
    than in the next. Where each had a second of its own, its median would be of the one kind or of
    the other, and that is nobody's merit. Each round has an order of its own: what a container
    leaves to the kernel to clear away takes time from whatever is run next.
    """
    out = directory / "times.json"
    argv = [*around, "hyperfine", "-N", "-r", "1", "--export-json", str(out)]
    turns, order = [*commands.items()], []
    warmups = min(WARMUPS, runs)
    for _ in range(runs + warmups):
        random.shuffle(turns)
        for name, command in turns:
            argv += ["-p", (prepare or {}).get(name, "true"), "-n", name, command]
            order.append(name)
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    times: dict[str, list[float]] = {name: [] for name in commands}
    rows = zip(order, json.loads(out.read_text())["results"], strict=True)
    for name, row in [*rows][len(commands) * warmups :]:
        times[name] += wall_times(row)
    return {name: statistics.median(values) for name, values in times.items()}


def wall_times(row: dict[str, Any]) -> list[float]:
    """The seconds of each run of a command, in hyperfine's JSON of version 1 or 2."""
    if "times" in row:
        return list(row["times"])
    return [float(one["time_wall_clock"]["value"]) for one in row["measurements"]]


def _peak(command: str) -> float:
    """The greatest resident size of any process of a run (getrusage(2), RUSAGE_CHILDREN), in MB."""
    code = "import os,resource,subprocess,sys; subprocess.run(sys.argv[1:], check=True); "
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    argv = [sys.executable, "-c", code, *command.split()]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return int(done.stdout) * 1024 / 1e6


def _report(found: dict[str, float], limit: float | None) -> int:
    own = found["minirun"]
    for name, median in found.items():
        print(f"{name:<36} {median * 1000:7.1f} ms   {median / own:5.2f} × minirun")
    print()
    if "runc" in found:
        ratio = own / found["runc"]
        plain = found[f"minirun, {SPEC}"] / found[f"runc, {SPEC}"]
        print(f"minirun / runc           {ratio:.2f}   run IMAGE, with docker's profile")
        print(f"minirun / runc           {plain:.2f}   {SPEC}, without a profile")
        if limit and ratio > limit:
            return 1
    for name, before in (
        *((f"minirun, {name}", "minirun") for name in GPUS),
        ("minirun, ubuntu, GPUs 0,1", "minirun, ubuntu"),
        ("minirun, new image, GPUs 0,1", "minirun, new image"),
    ):
        if name in found:
            added = found[name] - found[before]
            of_runc = (
                f", {added / found['runc']:.2f} × runc with the profile" if "runc" in found else ""
            )
            what = name.rpartition(", GPUs ")[2]
            print(f"GPUs {what} add {added * 1000:13.1f} ms to {before}{of_runc}")
    if BESIDE in found:
        print(f"run ID / run -b DIR ID   {found[BESIDE] / found[NAMED]:.2f}")
    costs = found["minirun, log"] / found["minirun, no log"] - 1
    print(f"the log costs            {costs * 100:.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
