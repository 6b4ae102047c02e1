"""Level 4: config.json is followed, and hooks take part in the half-started container."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from minirun.faces.teach.levels import facts, material, tried
from minirun.faces.teach.levels.material import HOME
from minirun.faces.teach.levels.tried import NotYet, TriedProgram, wait

_MANY = 400
"""Mounts of a bundle: they take some ten milliseconds."""
_PID = "sed -n 's/.*\"pid\": *\\([0-9]*\\).*/\\1/p'"
"""What a hook finds the pid with, in the state that it reads."""


def config_holds(program: TriedProgram) -> None:
    """What config.json says is what the command finds."""
    script = (
        'echo "$FROM_CONFIG|$HOME|$(pwd)|$(hostname)|$(cat /which)"; mount; env; ls /dev/pts/ptmx'
    )
    done = program.call(program.in_bundle("plain", material.config(args=["/bin/sh", "-c", script])))
    first, _, rest = done.out.partition("\n")
    if not first.endswith(material.TOP.strip()):
        raise NotYet("not-the-bundles-root", first or done.said)
    variable, _, where, name, _ = first.split("|")
    for key, found, wanted in (
        ("environment", variable, "yes"), ("cwd", where, "/tmp"), ("hostname", name, "from-config"),
    ):  # fmt: skip
        if found != wanted:
            raise NotYet(key, found)
    if "LC_ALL" in rest:
        raise NotYet("hosts-environment")
    if not re.search(r"on /made-by-config type tmpfs \(rw,nosuid,nodev,.*size=1024k", rest):
        raise NotYet("mount-missing", "/made-by-config")
    if not re.search(r"on /sys type sysfs \(ro,nosuid", rest):
        raise NotYet("mount-options", "/sys")
    if "/dev/pts/ptmx" not in rest:
        raise NotYet("mount-missing", "/dev/pts, below /dev,")
    document = material.config(args=["ladders-own"])
    document["process"]["env"] = ["PATH=/own"]
    words = program.in_bundle("plain", document)
    own = material.HOME / "bundles/plain/rootfs/own/ladders-own"
    own.parent.mkdir(exist_ok=True)
    own.write_text("#!/bin/sh\necho own\n")
    own.chmod(0o755)
    if (done := program.call(words)).out != "own\n":
        raise NotYet("hosts-path", done.said)


def binds_are_made(program: TriedProgram) -> None:
    """A directory and a file of the host are bound, one of them read-only."""
    source = _shared()
    (source / "file").write_text("bound\n")
    document = material.config(
        args=["/bin/sh", "-c", "cat /dir/file /deep/file; echo x > /dir/new; echo x > /deep/file"]
    )
    document["mounts"] += [
        {"destination": "/dir", "type": "bind", "source": str(source), "options": ["bind", "ro"]},
        {"destination": "/deep/file", "source": str(source / "file"), "options": ["rbind", "rw"]},
    ]
    done = program.call(program.in_bundle("binds", document))
    if done.out != "bound\nbound\n":
        raise NotYet("bind-missing", done.said)
    if (source / "new").exists():
        raise NotYet("bind-writable")
    if (source / "file").read_text() != "x\n":
        raise NotYet("bind-read-only", done.said)


def hooks_take_part(program: TriedProgram) -> None:
    """A prestart hook reads the state, while the container is half-started."""
    report, look = HOME / "state", HOME / "hook"
    for path in (report, look):
        path.unlink(missing_ok=True)
    script = (
        f"cat > {report}; sleep 0.2; pid=$({_PID} {report});"
        f" {{ readlink /proc/self/ns/mnt; readlink /proc/$pid/ns/mnt;"
        f" grep -c made-by-config /proc/$pid/mountinfo; ls -d /proc/$pid/root{HOME}; env; }}"
        f" > {look}"
    )
    document = material.config(args=["sleep", tried.SLEEP])
    document["hooks"] = {"prestart": [_hook(script)]}
    words = program.in_bundle("hooks", document)
    try:
        _look_at_hook(program, words, report, look)
    except NotYet as finding:
        has_read = report.exists() and facts.state(report.read_text())
        if finding.key == "command-not-run" and has_read and not look.exists():
            raise NotYet("hook-stdin-open") from None
        raise


def _look_at_hook(program: TriedProgram, words: list[str], report: Path, look: Path) -> None:
    """Compare what the hook has written with the container. Raises NotYet."""
    with program.running("sleep", tried.SLEEP, words=words) as (_, pid):
        if not wait(lambda: look.exists() and look.read_text().count("\n") > 3, 2.0):
            raise NotYet("hook-not-run", "prestart")
        state = facts.state(report.read_text())
        if not {"id", "pid", "bundle"} <= state.keys():
            raise NotYet("hook-state", report.read_text().strip() or "nothing")
        lines = look.read_text().splitlines()
        if lines[0] != tried.namespace("self", "mnt"):
            raise NotYet("hook-namespace")
        if state["pid"] != pid:
            raise NotYet("hook-pid", str(state["pid"]))
        if lines[1] == lines[0] or not int(lines[2]):
            raise NotYet("hook-too-early")
        if not any(line.endswith(str(HOME)) for line in lines[3:]):
            raise NotYet("hook-too-late")
        if "FROM_HOOK=yes" not in lines:
            raise NotYet("hook-environment", "FROM_HOOK")
        if any(line.startswith("LC_ALL=") for line in lines):
            raise NotYet("hooks-hosts-environment")
        if not Path(state["bundle"], "config.json").exists():
            raise NotYet("hook-state", f"bundle: {state['bundle']}")


def hooks_see_all_mounts(program: TriedProgram) -> None:
    """However long the root takes to build, a hook that looks at once finds it built."""
    found = HOME / "mounts-found"
    found.unlink(missing_ok=True)
    script = f"pid=$({_PID}); grep -c /many/ /proc/$pid/mountinfo > {found}"
    document = material.config(args=["true"])
    document["mounts"] += [
        {"destination": f"/many/{at}", "source": str(_shared()), "options": ["bind"]}
        for at in range(_MANY)
    ]
    document["hooks"] = {"prestart": [_hook(script)]}
    done = program.call(program.in_bundle("plain", document))
    if not found.exists():
        raise NotYet("hook-not-run", "prestart")
    if (count := found.read_text().strip()) != str(_MANY):
        raise NotYet("hook-too-early-by", f"{count} of {_MANY}")
    if done.status:
        raise NotYet("command-not-run", done.said)


def all_hooks_run(program: TriedProgram) -> None:
    """Each hook is run, in its order: prestart's, then createRuntime's."""
    found, inherited = HOME / "hooks-run", HOME / "hook-environment"
    for path in (found, inherited):
        path.unlink(missing_ok=True)
    document = material.config(args=["true"])
    document["hooks"] = {
        "createRuntime": [_hook(f"echo three >> {found}")],
        "prestart": [_hook(f"echo one >> {found}"), _hook(f"echo two >> {found}")],
    }
    without = _hook(f"/usr/bin/env > {inherited}")
    del without["env"]
    document["hooks"]["createRuntime"].append(without)
    done = program.call(program.in_bundle("plain", document))
    said = found.read_text().split() if found.exists() else []
    if said != ["one", "two", "three"]:
        raise NotYet("hooks-order", " ".join(said) or done.said)
    is_engines = program.number >= 9  # runc and crun hand their own environment on
    if not is_engines and inherited.exists() and "LC_ALL=" in inherited.read_text():
        raise NotYet("hooks-hosts-environment")


def hooks_end_in_time(program: TriedProgram) -> None:
    """A hook that takes longer than its timeout has failed."""
    document = material.config(args=["true"])
    hook = {"path": "/bin/sleep", "args": ["sleep", "77"], "timeout": 1}
    document["hooks"] = {"prestart": [hook]}
    try:
        done = program.call(program.in_bundle("plain", document))
    except NotYet as finding:
        is_hanging = finding.key == "hangs"
        raise NotYet("hook-timeout") if is_hanging else finding from None
    if done.status == 0:
        raise NotYet("hook-timeout")
    if wait(lambda: not tried.living(), 1.0) is False:
        raise NotYet("process-left", " ".join(tried.command_of(tried.living()[0])))


def namespaces_are_the_bundles(program: TriedProgram) -> None:
    """What config.json lists is new, and what it does not list is the caller's."""
    document = material.config(args=["sleep", tried.SLEEP])
    kinds = ("mount", "pid", "uts", "network")
    document["linux"]["namespaces"] = [{"type": kind} for kind in kinds]
    words = program.in_bundle("plain", document)
    with program.running("sleep", tried.SLEEP, words=words) as (_, pid):
        for kind, is_new in (("net", True), ("ipc", False)):
            if (tried.namespace(pid, kind) != tried.namespace("self", kind)) != is_new:
                raise NotYet("namespaces-ignored", kind)


def hooks_can_fail(program: TriedProgram) -> None:
    """If a hook fails there is no container, and its words are not lost."""
    marker = _shared() / "executed"
    marker.unlink(missing_ok=True)
    document = material.config(args=["/bin/sh", "-c", "touch /dir/executed"])
    document["mounts"].append(
        {"destination": "/dir", "type": "bind", "source": str(_shared()), "options": ["bind"]}
    )
    document["hooks"] = {"prestart": [_hook("echo hook says no >&2; exit 3")]}
    done = program.call(program.in_bundle("failing", document))
    if marker.exists() or done.status == 0:
        raise NotYet("failing-hook-ignored")
    if "hook says no" not in done.err and program.number < 9:  # crun says the exit status alone
        raise NotYet("hooks-words-lost", done.said)
    if wait(lambda: not tried.living(), 2.0) is False:
        raise NotYet("process-left", " ".join(tried.command_of(tried.living()[0])))


def _hook(script: str) -> dict[str, Any]:
    env = ["PATH=/usr/bin:/bin", "FROM_HOOK=yes"]
    return {"path": "/bin/sh", "args": ["sh", "-c", script], "env": env, "timeout": 5}


def _shared() -> Path:
    """Return a directory of the host that bundles bind."""
    path = HOME / "bound"
    path.mkdir(exist_ok=True)
    return path
