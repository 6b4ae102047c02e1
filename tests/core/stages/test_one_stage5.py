"""One stage 5, watched or not: the log of one container, made in each way there is, is the same.

The containers are of one image, and get GPUs 0 and 1 of the simulated driver. What is compared are
the events from stage 1's begin to stage 7's end, process by process: runtime and init work at the
same time in stages 1 and 7, and the order of two lines of different processes means nothing there.
Left out are numbers of descriptors, processes and device programs, the container's own paths, and
the gates of --step, at which the run stops because its caller asked for that.
"""

import json
import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import STORE, Program
from engines.clients.engine import Podman
from minirun.core.keeping import state
from minirun.core.keeping.settings import ROOT

Event = dict[str, Any]
Row = tuple[int, str, str, str, str]
"""(stage, actor, kind, name, arguments)."""
Log = dict[str, list[Row]]
"""Process → its rows, in order."""

NAME = "one"
FLAGS = ("--name", NAME, "--gpus", "0,1", "--gpu-driver", "simulated")
COMMAND = ("busybox", "true")
BOUNDS = [(stage, kind) for stage in range(1, 8) for kind in ("begin", "end")]
GPU_STAGES = (2, 3, 4, 5, 6)
PROMPT = b"[n]ext [c]ontinue"
_NUMBER = re.compile(r'(?<=/proc/)\d+|(?<=/fd/)\d+|(?<=pid=)\d+|(?<="prog_id": )\d+')
_DESCRIPTORS = (
    "fd", "dirfd", "from", "fs", "target_fd", "attach_bpf_fd", "replace_bpf_fd", "bpf_fd",
)  # fmt: skip
_PARENT = re.compile(
    r'^\{"path": "/sys/fs/cgroup(/[a-z,_]+)?/minirun'
    r'(/(cpuset\.(cpus|mems)|cgroup\.subtree_control)", "data": "[-+a-z0-9, ]*)?"\}$'
)
"""The cgroup that all containers share, which the first of them makes and fills."""
_PRIVATE_ROOT = json.dumps(
    {"source": None, "target": "/", "fstype": None, "flags": "MS_PRIVATE", "data": None}
)
_READ_ONLY = json.dumps(
    {"set": "MOUNT_ATTR_RDONLY", "clear": "0", "propagation": "0", "recursive": False}
)
"""What ldconfig's process does to each mount of the host's files."""


def compared(events: list[Event], own: str, rootfs: str) -> Log:
    """Return what is compared of a container's events; `own` is its directory."""
    made = [event for event in events if event["kind"] != "gate" and event["actor"] != "step"]
    bounds = [(event["stage"], event["kind"]) for event in made]
    made = made[bounds.index(BOUNDS[0]) : bounds.index(BOUNDS[-1]) + 1]
    assert [bound for bound in bounds if bound[1] in ("begin", "end")] == BOUNDS
    places = cgroups(made) | {rootfs: "ROOTFS", own: "OWN"}
    places[f'"{state.short(os.path.basename(own))}"'] = '"HOST"'
    found: Log = {}
    names: dict[int, str] = {}
    for event in made:
        who = names.setdefault(event["pid"], f"process {len(names)}")
        text = arguments(event["args"], places)
        if event["name"] in ("mkdir", "write") and _PARENT.match(text):
            continue
        row = (event["stage"], event["actor"], event["kind"], event["name"], text)
        found.setdefault(who, []).append(row)
    return found


def arguments(args: dict[str, Any], places: dict[str, str]) -> str:
    """Return an event's arguments as text, without what is this one container's own."""
    text = json.dumps({key: value for key, value in args.items() if key not in _DESCRIPTORS})
    for path, word in places.items():
        text = text.replace(path, word)
    return _NUMBER.sub("N", re.sub(r'"to": \d+', '"to": 0', text))


def cgroups(events: list[Event]) -> dict[str, str]:
    """Return each directory of the container's cgroup → the hierarchy that it is in."""
    made = [e["args"]["path"] for e in events if (e["stage"], e["name"]) == (1, "mkdir")]
    own = [path for path in made if os.path.basename(path) == os.path.basename(made[-1])]
    return {path: f"CGROUP {path.split('/')[4] if len(own) > 1 else ''}" for path in own}


class Ways:
    """The ways to make the container; each returns its log."""

    def __init__(self, minirun: Program, tmp_path: Path) -> None:
        self.minirun = minirun
        self.tmp_path = tmp_path

    def _log(self, rootfs: str = "") -> Log:
        own = str(self.minirun.directory(NAME))
        log = compared(self.minirun.events(NAME), own, rootfs or f"{own}/rootfs")
        self.minirun("delete", "--force", NAME)
        return log

    def quiet(self) -> Log:
        done = self.minirun("run", "-q", *FLAGS, *COMMAND)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        return self._log()

    def terminal(self) -> Log:
        shown = in_terminal(self.minirun.argv("run", *FLAGS, *COMMAND))
        assert b"hooks done" in shown and b"pivot_root" in shown, "the view tells of each stage"
        return self._log()

    def step(self) -> Log:
        shown = in_terminal(self.minirun.argv("run", "--step", *FLAGS, *COMMAND), b"n")
        assert shown.count(PROMPT) == len(BOUNDS)
        return self._log()

    def python_api(self) -> Log:
        code = "import minirun; minirun.run(*sys.argv[1:], gpus='0,1', "
        code = f"import sys; {code}gpu_driver='simulated', name={NAME!r})"
        env = self.minirun.environment()
        argv = [sys.executable, "-c", code, *COMMAND]
        subprocess.run(argv, env=os.environ | env, check=True, capture_output=True)
        return self._log()

    def bundle(self, layer: Path) -> Log:
        place = self.tmp_path / "bundle"
        place.mkdir()
        layer.rename(place / "rootfs")
        self.minirun("create", *FLAGS, *COMMAND)
        made = Path(self.minirun.directory(NAME))
        config = json.loads((made / "config.json").read_text()) | {"hostname": state.short(NAME)}
        (place / "config.json").write_text(json.dumps(config))
        shutil.copytree(made / "network", place / "network")  # hosts and the like, which it binds
        self.minirun("delete", "--force", NAME)
        argv = self.minirun.argv("--gpu-driver=simulated", "run", "--bundle", str(place), NAME)
        subprocess.run(argv, check=True, capture_output=True)
        log = self._log(f"{place}/rootfs")
        files = f"{place}/network"
        return {who: [(*r[:4], r[4].replace(files, "OWN/network")) for r in rows]
                for who, rows in log.items()}  # fmt: skip


def in_terminal(argv: list[str], key: bytes = b"") -> bytes:
    """Run a command in a terminal of its own; press `key` at each prompt. Return the screen."""
    own, its = os.openpty()
    env = os.environ | {"TERM": "xterm", "LC_ALL": "C.UTF-8"}
    running = subprocess.Popen(
        argv, stdin=its, stdout=its, stderr=its, env=env, start_new_session=True
    )
    os.close(its)
    shown, pressed = b"", 0
    while select.select([own], [], [], 60)[0]:
        try:
            shown += os.read(own, 65536)
        except OSError:  # EIO: its last process has closed it
            break
        if key and shown.count(PROMPT) > pressed:
            os.write(own, key)
            pressed += 1
    os.close(own)
    assert running.wait(60) == 0, shown[-2000:]
    return shown


@pytest.fixture
def ways(minirun: Program, tmp_path: Path) -> Ways:
    return Ways(minirun, tmp_path)


@pytest.fixture
def podman(command: str) -> Iterator[Podman]:
    engine = Podman("minirun", command)
    yield engine
    engine.close()


def differences(one: Log, other: Log, stages: tuple[int, ...] = ()) -> list[tuple[Row, ...]]:
    """Return the rows, (of one, of other), in which they differ in these stages; () for all."""
    assert [*one] == [*other], "the same number of processes"
    found = []
    for who, rows in one.items():
        pair = [
            [row for row in log if not stages or row[0] in stages] for log in (rows, other[who])
        ]
        assert len(pair[0]) == len(pair[1]), (who, set(pair[0]) ^ set(pair[1]))
        found += [both for both in zip(*pair, strict=True) if both[0] != both[1]]
    return found


def test_a_view_changes_nothing(ways: Ways) -> None:
    """The first container of an image; the third; those that are looked at in some way."""
    first, _, third = (ways.quiet() for _ in range(3))
    assert len(first) == 4, "runtime, init, the hook, and ldconfig"
    assert sum(row[0] == 5 for rows in first.values() for row in rows) > 100
    assert differences(first, third) == []
    assert differences(first, ways.terminal()) == []
    assert differences(first, ways.step()) == []
    assert differences(first, ways.python_api()) == []


def test_a_bundle_of_the_same_config(ways: Ways, layer: Path) -> None:
    """Its root filesystem is bound where an image's layers are stacked; all else is the same.

    But for one call: a bind mount is a peer of the host's, and is made private after pivot_root.
    """
    image, bundle = ways.quiet(), ways.bundle(layer)
    is_private = [row for rows in bundle.values() for row in rows if _PRIVATE_ROOT in row]
    assert [row[:4] for row in is_private] == [(7, "init", "syscall", "mount")]
    assert not any(_PRIVATE_ROOT in row for rows in image.values() for row in rows)
    bundle = {who: [r for r in rows if _PRIVATE_ROOT not in r] for who, rows in bundle.items()}
    [(stacked, bound)] = differences(image, bundle)
    assert stacked[:4] == bound[:4] == (1, "init", "syscall", "mount")
    assert json.loads(stacked[4])["fstype"] == "overlay"
    assert json.loads(bound[4])["flags"] == "MS_BIND|MS_REC"


def test_an_engine(ways: Ways, podman: Podman, layer: Path, minirun: Program) -> None:
    """podman writes a config.json of its own: other mounts, limits and rules in stages 1 and 7.

    It mounts files of its own, such as /etc/hosts: ldconfig may not write in those either.
    """
    hook = podman.home / "nvidia-container-runtime-hook"
    hook.symlink_to(minirun.path)
    rule = {"hook": {"path": str(hook)}, "when": {"always": True}, "stages": ["prestart"]}
    (podman.home / "hooks.d").mkdir()
    (podman.home / "hooks.d/gpus.json").write_text(json.dumps({"version": "1.0.0", **rule}))
    podman.cell.run("mkdir", "-p", ROOT, check=True)
    podman.cell.run("mount", "-t", "tmpfs", "none", ROOT, check=True)
    podman.client += (
        f"--hooks-dir={podman.home}/hooks.d", "--runtime-flag=gpu-driver=simulated",
        f"--runtime-flag=store={STORE}",
    )  # fmt: skip
    env = ("-e=NVIDIA_VISIBLE_DEVICES=0,1", "-e=NVIDIA_DRIVER_CAPABILITIES=compute,utility")
    place = shutil.copytree(layer, podman.home / "rootfs", symlinks=True)
    words = ("run", "--rm", "--network=none", f"--cgroup-parent={podman.cell.parent}", *env)
    podman(*words, "--rootfs", str(place), "true")
    text = podman.cell.run("sh", "-c", f"cat {ROOT}/*/events.jsonl {ROOT}/.history/*.jsonl").stdout
    events = [json.loads(line) for line in text.splitlines()]
    engines = compared(events, f"{ROOT}/{events[0]['id']}", str(place))
    own = ways.quiet()
    kept = [
        [row for rows in log.values() for row in rows if _READ_ONLY in row]
        for log in (own, engines)
    ]
    assert 0 < len(kept[0]) < len(kept[1]) and {*kept[0]} == {*kept[1]}
    own, engines = (
        {who: [row for row in rows if _READ_ONLY not in row] for who, rows in log.items()}
        for log in (own, engines)
    )
    assert differences(own, engines, GPU_STAGES) == []
