"""The life of a container: the table of contents of this program.

    create   stages 1 to 7, up to where init waits at exec.fifo
    start    lets init go on; the container's command runs
    kill     a signal to init
    delete   whatever is left goes: processes, cgroup, directory

Whichever command is killed, the next one finishes its work from state.json.
"""

import os
import select
import time

from minirun import events, handshake, hooks
from minirun.container import Container, keep_history
from minirun.errors import CommandError, MinirunError, StateError, from_os
from minirun.handshake import Channel, Message
from minirun.kernel import process
from minirun.oci import state
from minirun.process import command
from minirun.rootfs.tree import remove_tree
from minirun.stages import s1_clone, s2_ask, s3_prestart, s6_answer, s7_exec
from minirun.stages.s1_clone import Init

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

SIGKILL = 9
PATIENCE = 10.0
"""Seconds that a killed process gets to disappear before its cgroup is removed."""


def create(container: Container) -> Init:
    """Make the container, up to the point where its command waits for :func:`start`.

    On any error nothing is left behind. Raises MinirunError.
    """
    init = None
    try:
        with events.stage(1, "runtime", "clone and root filesystem", why="init is born"):
            container.prepare()
            init = s1_clone.runtime(container, run_init, lambda: s3_prestart.prepare(container))
        init.channel.say(Message.YOUR_TURN)
        init.channel.expect(Message.RUN_HOOKS)  # stage 2 is init's
        init.channel.expect(Message.YOUR_TURN)
        hook = s3_prestart.runtime(container)
        s3_prestart.finish(hook)  # stages 4 and 5 are the hook's
        s6_answer.runtime(init.channel)
        s3_prestart.reap(hook)
        s7_exec.runtime(container, init)
        init.channel.expect(Message.WAITING)  # stage 7 is init's
    except (MinirunError, OSError) as error:
        failure = _reason(container, error)
        if init:
            init.channel.fail(failure)
        destroy(container)
        raise failure from None
    except BaseException:
        destroy(container)
        raise
    return init


def _reason(container: Container, error: "MinirunError | OSError") -> MinirunError:
    """Turn what failed into an error; where init was killed, that is the reason for the rest."""
    failure = from_os(error) if isinstance(error, OSError) else error
    died = isinstance(failure, handshake.PeerDied)
    options = os.WEXITED | os.WNOWAIT | (0 if died else os.WNOHANG)
    try:
        end = os.waitid(os.P_PID, container.record["init"]["pid"], options)
    except (ChildProcessError, TypeError):  # TypeError: there is no init yet
        return failure
    if end is None or end.si_code == os.CLD_EXITED:
        return failure
    limited = (container.config.linux.get("resources") or {}).get("memory")
    hint = "perhaps its memory limit is too low to start with" if limited else ""
    return MinirunError(f"init was killed by signal {end.si_status}", hint)


def run_init(container: Container, channel: Channel) -> "NoReturn":
    """All that init does, in the child that clone made. Never returns."""
    try:
        path = f"{container.directory}/{handshake.EXEC}"
        exec_fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        root = s1_clone.init(container, channel)
        s2_ask.init(channel)
        ready = s7_exec.Ready(container, root)  # while the hooks run
        s6_answer.init(channel)
        s7_exec.init(container, channel, root, exec_fd, ready)
    except MinirunError as error:
        channel.fail(error)
    except OSError as error:
        channel.fail(from_os(error))
    except BaseException as error:
        channel.fail(MinirunError(f"init: {type(error).__name__}: {error}"))
    finally:
        os._exit(1)


def start(
    container: Container, channel: Channel, running: "Callable[[], None] | None" = None
) -> None:
    """Let init become the container's command, and make sure that it did; call `running` then.

    Raises CommandError (126, 127) where execve failed, MinirunError where init died before.
    """
    try:
        handshake.start(container.directory)
    except OSError:
        raise StateError(f"container {container.id!r} is not waiting for a start") from None
    said = channel.read_rest()
    if said:
        raise _start_failure(container, said)
    if running:
        running()
    container.save(status=state.RUNNING, complete=True)
    document = container.oci_state(state.RUNNING)
    rows = container.config.hooks("poststart")
    try:
        hooks.run_all(rows, "poststart", document, container.config.bundle)
    except MinirunError:
        _stop(container)  # runtime.md, Lifecycle: what a poststart hook refuses does not go on
        raise


def _start_failure(container: Container, said: bytes) -> MinirunError:
    """Turn init's last words (an errno of four bytes, or an ERROR message) into an error."""
    if len(said) != 4:
        return handshake.error_from(said.decode(errors="replace"))
    args = container.config.process["args"]
    code = int.from_bytes(said, "little")
    error: CommandError = command.refusal(code, args[0])
    events.emit("note", "execve failed", {"path": args[0], "errno": code}, ret=-1)
    return error


def kill(record: "dict[str, Any]", number: int) -> None:
    """Send a signal to the container's init. Raises StateError where none runs."""
    if record["status"] not in (state.CREATED, state.RUNNING, state.PAUSED):
        raise StateError("container not running")
    pid = record["init"]["pid"]
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        raise StateError("container not running") from None
    try:
        if not state.is_alive(record["init"]):  # somebody else's by now
            raise StateError("container not running")
        process.pidfd_send_signal(pidfd, number)
    finally:
        os.close(pidfd)


def _stop(container: Container) -> None:
    """Kill the container's init, if it still runs."""
    try:
        kill({**container.record, "status": state.RUNNING}, SIGKILL)
    except (StateError, ProcessLookupError):
        pass


def destroy(container: Container) -> None:
    """Remove all that a container is, whatever its state. Idempotent. Raises OSError."""
    record = container.record
    if not events.log_fds():
        try:
            container.open_log()  # `delete` and `gc` go on with the container's log
        except OSError:
            pass
    if state.is_alive(record["init"]):
        _stop(container)
    clear_cgroup(container)
    reap(record["init"])
    outlive_supervisor(record["supervisor"])
    _poststop(container)
    events.close_log()
    keep_history(container.settings.root, container.id)
    remove_tree(container.directory)


def clear_cgroup(container: Container) -> None:
    """Kill what still runs in the container's cgroup and remove it.

    Where the record does not say that the cgroup was made for this container, whoever is in it is
    a stranger, and only an empty one goes.
    """
    if container.record.get("cgroup"):
        container.cgroup.clear(PATIENCE)
        return
    try:
        container.cgroup.remove(0)
    except StateError:
        pass


def reap(init: "dict[str, Any] | None") -> None:
    """Collect a killed init where it is our child; wait until it is gone where it is not."""
    if not init:
        return
    try:
        os.waitpid(init["pid"], 0)
    except ChildProcessError:
        deadline = time.monotonic() + PATIENCE
        while state.is_alive(init) and time.monotonic() < deadline:
            time.sleep(0.001)


def outlive_supervisor(supervisor: "dict[str, Any]") -> None:
    """Let another process that looks after the container finish; kill it where it does not."""
    if supervisor["pid"] == os.getpid():
        return
    deadline = time.monotonic() + PATIENCE
    while state.is_alive(supervisor):
        if time.monotonic() > deadline:
            os.kill(supervisor["pid"], SIGKILL)
        time.sleep(0.002)


def _poststop(container: Container) -> None:
    """Run the poststop hooks, once; their failure is told, and stops nothing."""
    rows = container.config.hooks("poststop")
    if not rows or not container.record["init"] or not container.claim("poststop_done"):
        return
    for index, hook in enumerate(rows):
        try:
            name = f"poststop hook {index} ({hook['path']})"
            hooks.run(hook, name, container.oci_state(state.STOPPED), container.config.bundle)
        except MinirunError as error:
            os.write(2, f"minirun: warning: {error.line()}\n".encode())


def wait(pidfd: int, pid: int) -> int:
    """Wait for our child `pid` to end; return its exit status, 128 + n for signal n."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.poll()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code
