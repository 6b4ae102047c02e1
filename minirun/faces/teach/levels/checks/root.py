"""Level 2: the command sees an image, and the host's files are gone."""

from __future__ import annotations

from pathlib import Path

from minirun.faces.teach.levels import facts, material, tried
from minirun.faces.teach.levels.tried import NotYet, TriedProgram


def layers_in_order(program: TriedProgram) -> None:
    """The topmost layer wins, and all layers are there."""
    done = program.run("cat", f"/{material.WHICH}")
    if done.out == material.BELOW:
        raise NotYet("layers-turned-round")
    if done.out != material.TOP:
        raise NotYet("not-the-image", done.said)


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
        if any(mount.source == "sandbox" for mount in facts.mounts(pid).values()):
            raise NotYet("old-root-mounted")
        if not facts.in_namespace(pid, lambda: Path(f"/{material.WHICH}").exists()):
            raise NotYet("chroot")


def devices_are_there(program: TriedProgram) -> None:
    """/dev has the nodes that programs expect, for every user."""
    script = "for n in null zero full random urandom; do stat -c '%n %a %t:%T' /dev/$n; done"
    done = program.run("/bin/sh", "-c", script + "; : > /dev/null || echo dead; readlink /dev/fd")
    if "dead" in done.out:
        raise NotYet("device-missing", "null")
    for line, numbers in zip(
        ("null", "zero", "full", "random", "urandom"), ("1:3", "1:5", "1:7", "1:8", "1:9"),
        strict=True,
    ):  # fmt: skip
        if f"/dev/{line} 666 {numbers}\n" not in done.out:
            raise NotYet("device-missing", line)
    if "/proc/self/fd" not in done.out:
        raise NotYet("device-missing", "fd")


def nothing_is_left(program: TriedProgram) -> None:
    """After it nothing is left: no file in /run or /tmp, no process, no mount."""
    before = facts.mounts()
    program.run("true")
    kept = facts.left_files()
    program.run("true")
    if tried.living():
        raise NotYet("process-left", " ".join(tried.command_of(tried.living()[0])))
    if new := facts.new_mounts(before):
        raise NotYet("mounts-spread", new[0])
    if new := sorted(facts.left_files() - kept):
        raise NotYet("files-left", new[0])
