"""Level 2: the command sees an image, and the host's files are gone."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from minirun.core.kernel.mountinfo import Mount
from minirun.faces.teach.levels import facts, material, tried
from minirun.faces.teach.levels.tried import NotYet, TriedProgram


def layers_in_order(program: TriedProgram) -> None:
    """The topmost layer wins, and all layers are there, for every user."""
    done = program.run("/bin/sh", "-c", f"cat /{material.WHICH}; stat -c %a /")
    seen, _, mode = done.out.strip().rpartition("\n")
    if f"{seen}\n" == material.BELOW:
        raise NotYet("layers-turned-round")
    if f"{seen}\n" != material.TOP:
        raise NotYet("not-the-image", done.said)
    if not mode.endswith("5"):
        raise NotYet("root-closed", mode)


def writes_stay_apart(program: TriedProgram) -> None:
    """What the command writes goes to no layer, and is there for it."""
    done = program.run("/bin/sh", "-c", "echo new > /new && cat /new && rm /which && ls /which")
    layers = [Path(each) for each in program.lower.split(":")]
    if any((each / "new").exists() for each in layers) or not (layers[0] / "which").exists():
        raise NotYet("layer-written")
    if not done.out.startswith("new\n"):
        raise NotYet("read-only-root", done.said)


def root_of_the_namespace(program: TriedProgram) -> None:
    """The host's root is not in the mount namespace any more: chroot(2) would leave it there."""
    with program.running("sleep", tried.SLEEP) as (_, pid):
        found = (mount for mount in facts.mounts(pid).values() if mount.source == "sandbox")
        tops = [mount.mount_point for mount in found if mount.root == "/"]
        if any(top.split("/")[1] != "dev" for top in tops):  # /dev may be bound, as crun does it
            raise NotYet("old-root-mounted")
        if not facts.in_namespace(pid, lambda: Path(f"/{material.WHICH}").exists()):
            raise NotYet("chroot")


def devices_are_there(program: TriedProgram) -> None:
    """/dev has the nodes that programs expect, for every user."""
    script = "for n in null zero full random urandom tty; do stat -c '%n %a %t:%T' /dev/$n; done"
    script += (
        "; echo > /dev/null || echo dead; readlink /dev/fd; stat -c '%n %a' /dev /dev/pts/ptmx"
    )
    done = program.run("/bin/sh", "-c", script)
    for line, numbers in zip(
        ("null", "zero", "full", "random", "urandom", "tty"),
        ("1:3", "1:5", "1:7", "1:8", "1:9", "5:0"),
        strict=True,
    ):  # fmt: skip
        seen = re.search(rf"^/dev/{line} (.*)$", done.out, re.MULTILINE)
        if not seen or seen[1] != f"666 {numbers}":
            raise NotYet("device-missing", f"{line} ({seen[1] if seen else '-'})")
    if "dead" in done.out:
        is_rule = "not permitted" in done.err  # of a cgroup; a mount with nodev says EACCES
        raise NotYet("null-denied" if is_rule else "device-missing", "null (EACCES)")
    if "/proc/self/fd" not in done.out:
        raise NotYet("link-missing", "fd")
    if "/dev 755\n" not in done.out:
        raise NotYet("dev-closed")
    if "/dev/pts/ptmx " not in done.out:
        raise NotYet("ptmx-missing")
    if "/dev/pts/ptmx 666" not in done.out:
        raise NotYet("ptmx-closed")


def devices_are_its_own(program: TriedProgram) -> None:
    """/dev is a file system of the container's own: the host's would have all its devices."""
    with program.running("sleep", tried.SLEEP) as (_, pid):
        own = {mount.mount_point: mount.device for mount in facts.mounts(pid).values()}
        hosts = {mount.device for mount in facts.mounts().values() if mount.mount_point == "/dev"}
        if own.get("/dev") in hosts:
            raise NotYet("hosts-dev")


def sys_is_read_only(program: TriedProgram) -> None:
    """/sys is there, and cannot be written to."""
    with program.running("sleep", tried.SLEEP) as (_, pid):
        found = [each for each in facts.mounts(pid).values() if each.mount_point == "/sys"]
        if not found or found[-1].fs_type != "sysfs":
            raise NotYet("sys-missing")
        if "ro" not in found[-1].options.split(","):
            raise NotYet("sys-writable")


def nothing_is_left(program: TriedProgram) -> None:
    """After it nothing is left: no file in /run or /tmp, no process, no mount, no cgroup."""
    before = facts.mounts()
    program.run("true")
    compare = _Left(before)
    program.run("true")
    compare.now()


def nothing_is_left_of_a_failure(program: TriedProgram) -> None:
    """Nor after a command that is not there, and a hook that fails."""
    before = facts.mounts()
    program.run("true")
    compare = _Left(before)
    program.run("no-such-program")
    compare.now()
    if program.number >= 4:
        document = material.config(args=["true"])
        document["hooks"] = {"prestart": [{"path": "/bin/false", "args": ["false"]}]}
        program.call(program.in_bundle("plain", document))
        compare.now()


def nothing_is_left_of_two(program: TriedProgram) -> None:
    """Nor after two at once; and the end of one does nothing to the other."""
    before = facts.mounts()
    program.run("true")
    compare = _Left(before)
    with program.running("sleep", tried.SLEEP) as (started, pid):
        done = program.run("cat", f"/{material.WHICH}")
        if done.out != material.TOP:
            raise NotYet("two-at-once", done.said)
        if tried.state(pid) in ("", "Z", "X"):
            raise NotYet("two-at-once", started.wait().said)
        os.kill(pid, signal.SIGKILL)
        started.wait()
    compare.now()


class _Left:
    """What there is after a first start: no later one adds to it."""

    def __init__(self, mounts: dict[int, Mount]) -> None:
        self.mounts, self.files, self.cgroups = mounts, facts.left_files(), facts.cgroups()

    def now(self) -> None:
        """Compare. Raises NotYet."""
        if tried.wait(lambda: not tried.living(), 1.0) is False:
            raise NotYet("process-left", " ".join(tried.command_of(tried.living()[0])))
        if new := facts.new_mounts(self.mounts):
            raise NotYet("mounts-spread", new[0])
        if new := sorted(facts.left_files() - self.files):
            raise NotYet("files-left", new[0])
        if new := sorted(facts.cgroups() - self.cgroups):
            raise NotYet("cgroup-left", new[0])
