"""Stage 3: the runtime runs each prestart hook of config.json, the container's state on its stdin.

Hooks run in the runtime's namespaces, one after the other. NVIDIA's hook is not executed but
called, in a child process of its own: stages 4 and 5 happen there, in-line, where they can be
watched. That process is made right after init, and loads its program and looks at the host's GPUs
while init builds the root filesystem; it does nothing to the container before it gets the state.
With `--gpu-mode hook` the hook is executed like the others, and stages 4 and 5 are its own.
"""

import os

from minirun.core import config as oci_config
from minirun.core import events, hooks, jsonlite
from minirun.core import state as oci_state
from minirun.core.container import Container
from minirun.core.errors import HookError, MinirunError, from_os
from minirun.core.kernel import namespaces, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.stages.s1_clone import Init


_DONE = b"done"
"""What the hook says last. Its end, which takes the kernel 0.6 ms, need not be waited for."""


class Hook:
    """The hook's process: a pipe that brings its state, and one that takes back an error."""

    def __init__(self, pid: int, stdin: int, stderr: int) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stderr = stderr

    def close(self) -> None:
        """Close the runtime's ends."""
        os.close(self.stdin)
        os.close(self.stderr)

    def say(self, document: "dict[str, Any]") -> None:
        """Give it the container's state. Raises OSError."""
        try:
            os.write(self.stdin, jsonlite.dumps(document).encode() + b"\n")
        except BrokenPipeError:
            pass  # it has ended before its turn: finish() finds out why

    def wait(self) -> int:
        """Collect the process; return its exit status, -n for signal n."""
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.pid = 0
        return status

    def end(self) -> None:
        """Kill it, whatever it is doing, unless it was collected before."""
        if self.pid:
            os.kill(self.pid, 9)
            self.wait()


def prepare(container: Container, init: "Init") -> "Hook | None":
    """Make the process of NVIDIA's hook, where config.json has it: it gets ready, and waits.

    Raises OSError.
    """
    if not container.config.nvidia_in_line and not container.config.gpu_vendor:
        return None
    stdin, feed = os.pipe2(os.O_CLOEXEC)
    said, stderr = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    why = "the GPU hook, in-line: it gets ready; the real runtime executes a program in stage 3"
    pid, pidfd = namespaces.clone3(0, why=why)
    if pid == 0:
        for fd in (feed, said, init.pidfd):
            os.close(fd)
        init.channel.close()  # the hook is a copy of the runtime: its ends are for the runtime
        _hook_process(container, stdin, stderr, parent)
    for fd in (stdin, stderr, pidfd):
        os.close(fd)
    return Hook(pid, feed, said)


def runtime(container: Container, gpu_hook: "Hook | None") -> None:
    """Run the prestart and createRuntime hooks, and give NVIDIA's its state, and with it the turn.

    Raises HookError, OSError.
    """
    document = container.oci_state(oci_state.CREATING)
    bundle = container.config.bundle
    with events.stage(3, "runtime", "run the prestart hooks", why="in the host's namespaces"):
        rows = container.config.hooks("prestart")
        others = [hook for hook in rows if not container.config.in_line(hook)]
        hooks.run_all(others, "prestart", document, bundle)
        hooks.run_all(container.config.hooks("createRuntime"), "createRuntime", document, bundle)
        if gpu_hook:
            events.emit("message", "STATE", {"to": "hook"}, why="on its standard input, as JSON")
        elif not rows:
            events.emit("note", "no prestart hook", why="stages 4 and 5 have nothing to do")
    if gpu_hook:
        gpu_hook.say(document)


def _hook_process(container: Container, stdin: int, stderr: int, parent: int) -> None:
    """In the child: get ready, read the state, do stages 4 and 5, report, exit."""
    early = True
    try:
        events.become("hook", os.getpid())
        process.prctl(process.PR_SET_PDEATHSIG, 9, why="the hook dies with the runtime")
        process.become_named("minirun:hook")
        from minirun.core.stages import s4_arguments, s5_inject

        failure = _get_ready(container)
        document = _read_state(stdin)
        if not document or os.getppid() != parent:
            os._exit(1)
        if failure:
            raise failure
        early = False
        if container.gates:
            container.gates.watched.append(os.pidfd_open(document["pid"]))
        argv = s4_arguments.hook(document, container.config.choices)
        if argv:
            s5_inject.cli(container, argv, document["pid"])
        elif container.init_layer:
            s5_inject.nothing(container.init_layer, document["pid"], container.config.rootfs)
        os.write(stderr, _DONE)
        os.read(stdin, 1)  # its end: whoever answers init goes first, on whichever processor
        os._exit(0)
    except BaseException as error:
        _report(stderr, error, early=early)
    finally:
        os._exit(1)


def _get_ready(container: Container) -> "Exception | None":
    """Look at the host's GPUs; return what is wrong with them or with what is asked for."""
    from minirun.core.stages import s5_inject

    if not container.init_layer:
        from minirun.gpu import mountpoints  # noqa: F401 - while there is time
    try:
        s5_inject.look_early(container)
    except (MinirunError, OSError) as error:
        return error
    return None


def _read_state(stdin: int) -> "dict[str, Any] | None":
    """Return the container's state, one line of JSON; None where the runtime has given up."""
    text = bytearray()
    while not text.endswith(b"\n"):
        chunk = os.read(stdin, 4096)
        if not chunk:
            return None
        text += chunk
    document: dict[str, Any] = jsonlite.loads(text.decode())
    return document


def _report(stderr: int, error: BaseException, *, early: bool) -> None:
    """Write what went wrong to the runtime, as JSON; `early`: before the hook had its turn."""
    if isinstance(error, OSError):
        error = from_os(error)
    hint = error.hint if isinstance(error, MinirunError) else ""
    text = str(error) or type(error).__name__
    who = "" if early else f"{oci_config.GPU_HOOK}: "
    os.write(stderr, jsonlite.dumps({"text": who + text[:3000], "hint": hint}).encode())


def finish(gpu_hook: "Hook | None") -> None:
    """Wait for NVIDIA's hook to be done. Raises HookError with what it reported."""
    if gpu_hook is None:
        return
    said = bytearray()
    while said != _DONE and (chunk := os.read(gpu_hook.stderr, 4096)):
        said += chunk
    gpu_hook.close()
    if said == _DONE:
        return
    status = gpu_hook.wait()
    if status == 0:
        return
    silent = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
    if not said:
        raise HookError(f"{oci_config.GPU_HOOK}: {silent}")
    report = jsonlite.loads(said.decode())
    raise HookError(report["text"], report["hint"])
