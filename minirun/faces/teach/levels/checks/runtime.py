"""Level 9: create, start, state, kill and delete, as engines call them."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import suppress
from functools import partial

from minirun.common.waiting import readable
from minirun.faces.teach.levels import facts, material, tried
from minirun.faces.teach.levels.checks import process
from minirun.faces.teach.levels.material import HOME, PROC
from minirun.faces.teach.levels.tried import NotYet, TriedProgram, wait


def runtime_runs(program: TriedProgram) -> None:
    """`run --bundle DIR ID` gives the command's output and status."""
    script = ["/bin/sh", "-c", "echo x; exit 7"]
    done = program.call(program.in_bundle("r", material.config(args=script)))
    if done.out != "x\n":
        raise NotYet("command-not-run", done.said)
    process.gives_7(done)


def created_waits(program: TriedProgram) -> None:
    """`create` returns while init waits; only `start` executes the command."""
    pid_file = HOME / "pid"
    pid_file.unlink(missing_ok=True)
    _create(program, "c", "--pid-file", str(pid_file))
    if tried.pid_of(("sleep", tried.SLEEP)):
        raise NotYet("started-by-create")
    state = facts.state(program.runtime("state", "c").out)
    if state.get("status") == "stopped":
        raise NotYet("created-gone")
    if state.get("status") != "created":
        raise NotYet("state", f"{state.get('status')}, not created")
    pid = state.get("pid", 0)
    if tried.state(pid) in ("", "Z") or tried.namespace(pid, "mnt") == tried.namespace(
        "self", "mnt"
    ):
        raise NotYet("state-pid", str(pid))
    if not pid_file.exists() or pid_file.read_text().strip() != str(pid):
        raise NotYet("pid-file")
    again = program.runtime("create", "--bundle", state["bundle"], "c")
    if again.status == 0:
        raise NotYet("id-twice")
    if program.runtime("start", "c").status:
        raise NotYet("start")
    if wait(lambda: tried.pid_of(("sleep", tried.SLEEP))) != pid:
        raise NotYet("start", "the command does not run")
    if (status := _status(program, "c")) == "created":
        raise NotYet("started-unseen")
    if status != "running":
        raise NotYet("state", f"{status}, not running")
    if program.runtime("start", "c").status == 0:
        raise NotYet("start-twice")


def signals_arrive_as_sent(program: TriedProgram) -> None:
    """kill sends the signal that it is told, by name or number."""
    found = HOME / "bound" / "signals"
    found.parent.mkdir(exist_ok=True)
    found.unlink(missing_ok=True)
    script = (
        'for name in USR1 USR2 TERM; do trap "echo $name >> /dir/signals" $name; done;'
        " echo ready >> /dir/signals; while :; do sleep 0.05; done"
    )
    document = material.config(args=["/bin/sh", "-c", script])
    document["mounts"].append(
        {"destination": "/dir", "type": "bind", "source": str(found.parent), "options": ["bind"]}
    )
    directory = program.bundle("plain", document)
    if (done := program.runtime("create", "--bundle", str(directory), "signals")).status:
        raise NotYet("create", done.said)
    program.runtime("start", "signals")

    def heard(count: int) -> list[str]:
        words = found.read_text().split() if found.exists() else []
        return words if len(words) == count else []

    if not wait(partial(heard, 1)):
        raise NotYet("start", "the command does not run")
    for count, (word, name) in enumerate(
        (("USR1",) * 2, ("SIGUSR2", "USR2"), ("15", "TERM"), ("", "TERM")), 2
    ):
        program.runtime("kill", "signals", *filter(None, [word]))
        if wait(partial(heard, count))[-1:] != [name]:
            raise NotYet("kill-other-signal", word or "TERM, which none stands for,")
    program.runtime("delete", "--force", "signals")


def roots_are_apart(program: TriedProgram) -> None:
    """--root says where containers are: two of one name, under two of them, and no id leads out."""
    directory = str(program.bundle("plain", material.config(args=["sleep", tried.SLEEP])))
    for root in ("one", "two"):
        words = [*program.command, "--root", str(HOME / root), "create", "--bundle", directory, "r"]
        if (done := program.call(words)).status:
            raise NotYet("root-ignored", done.said)
    for name in ("../led-out", "r/below"):
        if program.runtime("create", "--bundle", directory, name).status == 0:
            program.runtime("delete", "--force", name)
            raise NotYet("id-leads-out", name)
    for root in ("one", "two"):
        program.call([*program.command, "--root", str(HOME / root), "delete", "--force", "r"])


def errors_are_logged(program: TriedProgram) -> None:
    """An error goes to --log, as a line of JSON: an engine shows it to its user."""
    path = HOME / "log.json"
    path.unlink(missing_ok=True)
    directory = str(program.bundle("plain", material.config(args=["no-such-program"])))
    words = ("--log", str(path), "--log-format", "json", "create", "--bundle", directory, "log")
    if program.runtime(*words).status == 0:
        program.runtime("delete", "--force", "log")
        raise NotYet("create-of-nothing")
    rows = [facts.state(line) for line in (path.read_text() if path.exists() else "").splitlines()]
    if not any("no-such-program" in str(row.get("msg")) for row in rows):
        raise NotYet("log", str(rows))
    if program.runtime("state", "log").status == 0:
        raise NotYet("delete", "a create that failed leaves a container")


def cgroup_is_where_asked(program: TriedProgram) -> None:
    """linux.cgroupsPath is where its cgroup is: the engine reads the files there."""
    document = material.config(args=["sleep", tried.SLEEP])
    document["linux"]["cgroupsPath"] = "/asked-for/here"
    words = program.in_bundle("plain", document)
    with program.running("sleep", tried.SLEEP, words=words) as (_, pid):
        cgroup = facts.cgroup_of(pid, "pids")
        if not str(cgroup).endswith("/asked-for/here"):
            raise NotYet("cgroups-path", str(cgroup))


def namespace_is_joined(program: TriedProgram) -> None:
    """A namespace with a path is entered: the engine has made it, with its network."""
    holder = subprocess.Popen(["unshare", "--net", "sleep", "60"])
    try:
        wait(lambda: tried.namespace(holder.pid, "net") != tried.namespace("self", "net"))
        document = material.config(args=["sleep", tried.SLEEP])
        row = {"type": "network", "path": f"{PROC}/{holder.pid}/ns/net"}
        document["linux"]["namespaces"].append(row)
        words = program.in_bundle("plain", document)
        with program.running("sleep", tried.SLEEP, words=words) as (_, pid):
            if tried.namespace(pid, "net") != tried.namespace(holder.pid, "net"):
                raise NotYet("namespace-path")
    finally:
        holder.kill()
        holder.wait()


def late_hooks_run(program: TriedProgram) -> None:
    """poststart's hooks are run by start (runc's by create), poststop's after the removal."""
    found = HOME / "late-hooks"
    found.unlink(missing_ok=True)
    document = material.config(args=["sleep", tried.SLEEP])
    document["hooks"] = {
        kind: [{"path": "/bin/sh", "args": ["sh", "-c", f"echo {kind} >> {found}"]}]
        for kind in ("poststart", "poststop")
    }
    document["linux"]["cgroupsPath"] = "/late/hooks"
    places = "/sys/fs/cgroup/late/hooks /sys/fs/cgroup/*/late/hooks"
    script = f"for d in {places}; do test -d $d && echo early >> {found}; done; true"
    hook = {"path": "/bin/sh", "args": ["sh", "-c", script]}
    document["hooks"]["poststop"].insert(0, hook)
    directory = str(program.bundle("plain", document))
    program.runtime("create", "--bundle", directory, "late")
    program.runtime("start", "late")
    if not wait(lambda: found.exists() and found.read_text() == "poststart\n"):
        raise NotYet("late-hooks", "poststart")
    program.runtime("delete", "--force", "late")
    if not wait(lambda: found.read_text().endswith("\npoststop\n")):
        raise NotYet("late-hooks", "poststop")
    if "early" in found.read_text():
        raise NotYet("late-hooks", "poststop, which came while the cgroup was still there")


def it_is_killed_and_deleted(program: TriedProgram) -> None:
    """kill sends a signal, delete removes what has stopped, and nothing else."""
    if program.runtime("delete", "c").status == 0:
        raise NotYet("deleted-while-running")
    if program.runtime("kill", "c", "KILL").status:
        raise NotYet("kill")
    if not wait(lambda: not tried.pid_of(("sleep", tried.SLEEP))):
        raise NotYet("kill")
    if not wait(lambda: _status(program, "c") == "stopped"):  # it is being ended for a moment
        raise NotYet("state", f"{_status(program, 'c')}, not stopped")
    if program.runtime("kill", "c", "KILL").status == 0:
        raise NotYet("kill-of-stopped")
    if program.runtime("delete", "c").status:
        raise NotYet("delete")
    if program.runtime("state", "c").status == 0:
        raise NotYet("delete", "state still knows it")


def force_ends_it(program: TriedProgram) -> None:
    """delete --force ends what runs, and is content if there is nothing."""
    before = facts.cgroups()
    _create(program, "f")
    program.runtime("start", "f")
    wait(lambda: tried.pid_of(("sleep", tried.SLEEP)))
    if program.runtime("delete", "--force", "f").status or tried.pid_of(("sleep", tried.SLEEP)):
        raise NotYet("force")
    if program.runtime("delete", "--force", "f").status:
        raise NotYet("force-of-nothing")
    if left := sorted(facts.cgroups() - before):
        raise NotYet("cgroup-left", left[0])


def terminal_is_sent(program: TriedProgram) -> None:
    """With process.terminal the terminal's other end comes over the console socket."""
    path = HOME / "console.sock"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        server.settimeout(tried.seconds())
        script = ["/bin/sh", "-c", "tty; test -t 0 && echo terminal; echo controls > /dev/tty"]
        directory = program.bundle("t", material.config(args=script, terminal=True))
        started = program.start(
            [*program.command, "--root", str(HOME / "root"), "create", "--bundle", str(directory),
             "--console-socket", str(path), "t"]
        )  # fmt: skip
        try:
            with suppress(OSError):
                connection, _ = server.accept()
                _, fds, _, _ = socket.recv_fds(connection, 100, 1)
                connection.close()
                if not fds:
                    raise NotYet("no-terminal", started.wait().said)
                started.wait()
                program.runtime("start", "t")
                text = _read_terminal(fds[0])
                os.close(fds[0])
                if "/dev/pts/0" not in text or "terminal" not in text:
                    raise NotYet("no-terminal", text.strip())
                if "controls" not in text:
                    raise NotYet("terminal-controls-nothing")
                return
            raise NotYet("no-terminal")
        finally:
            started.end()
            program.runtime("delete", "--force", "t")


def gpus_without_an_engine(program: TriedProgram) -> None:
    """NVIDIA_VISIBLE_DEVICES of the bundle is enough for two GPUs."""
    done = program.with_gpus("0,1", "nvidia-smi -L")
    if done.out.count("SIMULATED") != 2:
        raise NotYet("gpu-not-listed", done.said)


def output_is_creates(program: TriedProgram) -> None:
    """What the command writes after start goes to create's streams, where the engine reads."""
    script = ["/bin/sh", "-c", "echo said; echo also said >&2"]
    directory = str(program.bundle("said", material.config(args=script)))
    words = ["--root", str(HOME / "root"), "create", "--bundle", directory, "said"]
    created = program.start([*program.command, *words])
    if (done := created.wait()).status:
        raise NotYet("create", done.said)
    program.runtime("start", "said")
    if not wait(lambda: created.printed() == ("said\n", "also said\n")):
        raise NotYet("output-lost", " ".join(created.printed()).strip() or "nothing")
    program.runtime("delete", "--force", "said")


def _status(program: TriedProgram, name: str) -> str:
    """Return the status that the program says a container has; "" if it says none."""
    return str(facts.state(program.runtime("state", name).out).get("status", ""))


def _create(program: TriedProgram, name: str, *flags: str) -> None:
    """Create a container that will sleep. Raises NotYet if it is not there."""
    directory = program.bundle(name, material.config(args=["sleep", tried.SLEEP]))
    done = program.runtime("create", "--bundle", str(directory), *flags, name)
    if done.status:
        raise NotYet("create", done.said)


def _read_terminal(fd: int) -> str:
    """Return what a terminal prints until its last process has closed it, or time is over."""
    text, end = b"", time.monotonic() + tried.seconds()
    with suppress(OSError):  # EIO: it is closed
        while readable(fd, end) and (chunk := os.read(fd, 4096)):
            text += chunk
    return text.decode(errors="replace")
