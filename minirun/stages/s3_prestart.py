"""Stage 3: the runtime runs each prestart hook of config.json, the container's state on its stdin.

Hooks run in the runtime's namespaces, one after the other. NVIDIA's hook is not executed but
called, in a child process of its own: stages 4 and 5 happen there, in-line, where they can be
watched. With `--gpu-mode hook` it is executed like the others, and stages 4 and 5 are its own.
"""

import os

from minirun import events, hooks, jsonlite
from minirun.container import Container
from minirun.errors import HookError, MinirunError, from_os
from minirun.kernel import namespaces, process
from minirun.oci import config as oci_config
from minirun.oci import state as oci_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_DONE = b"done"
"""What the hook says last. Its end, which takes the kernel 0.6 ms, need not be waited for."""


class Child:
    """The hook's process: a pipe that brings its state, and one that takes back an error."""

    def __init__(self, pid: int, stdin: int, stderr: int) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stderr = stderr


def prepare(container: Container) -> None:
    """Load what stages 4 and 5 need, and look what GPUs the host has.

    It happens while init is busy with its root filesystem; the hook, a copy of this process, then
    finds it done. Raises GPUError, OSError.
    """
    if _gpus_in_line(container):
        from minirun.stages import s4_arguments, s5_inject  # noqa: F401

        s5_inject.look_early(container)


def _gpus_in_line(container: Container) -> bool:
    """Whether stages 4 and 5 are done here: for NVIDIA's hook, or for another vendor's GPUs."""
    config = container.config
    return any(map(config.in_line, config.hooks("prestart"))) or bool(config.gpu_vendor)


def runtime(container: Container) -> "Child | None":
    """Run the prestart and createRuntime hooks.

    Returns NVIDIA's hook, started, where config.json has it: it got its state, and the turn.
    Raises HookError, OSError.
    """
    document = container.oci_state(oci_state.CREATING)
    bundle = container.config.bundle
    child = None
    with events.stage(3, "runtime", "run the prestart hooks", why="in the host's namespaces"):
        rows = container.config.hooks("prestart")
        others = [hook for hook in rows if not container.config.in_line(hook)]
        hooks.run_all(others, "prestart", document, bundle)
        hooks.run_all(container.config.hooks("createRuntime"), "createRuntime", document, bundle)
        if _gpus_in_line(container):
            child = _start_gpu_hook(container)
        elif not rows:
            events.emit("note", "no prestart hook", why="stages 4 and 5 have nothing to do")
    if child:
        os.write(child.stdin, jsonlite.dumps(document).encode())
        os.close(child.stdin)
    return child


def _start_gpu_hook(container: Container) -> Child:
    """Fork the hook's process; it waits for its state on stdin."""
    stdin, feed = os.pipe2(os.O_CLOEXEC)
    said, stderr = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    why = "the GPU hook, in-line; the real runtime executes a program here"
    pid, pidfd = namespaces.clone3(0, why=why)
    if pid == 0:
        os.close(feed)
        os.close(said)
        _hook_process(container, stdin, stderr, parent)
    for fd in (stdin, stderr, pidfd):
        os.close(fd)
    return Child(pid, feed, said)


def _hook_process(container: Container, stdin: int, stderr: int, parent: int) -> None:
    """In the child: read the state to its end, do stages 4 and 5, report, exit."""
    try:
        from minirun.stages import s4_arguments, s5_inject  # loaded by prepare, in the parent

        events.become("hook", os.getpid())
        process.prctl(process.PR_SET_PDEATHSIG, 9, why="the hook dies with the runtime")
        process.become_named("minirun:hook")
        text = bytearray()
        while chunk := os.read(stdin, 65536):
            text += chunk
        if not text or os.getppid() != parent:
            os._exit(1)
        document: dict[str, Any] = jsonlite.loads(text.decode())
        argv = s4_arguments.hook(document)
        if argv:
            s5_inject.cli(container, argv, document["pid"])
        os.write(stderr, _DONE)
        os._exit(0)
    except BaseException as error:
        _report(stderr, error)
    finally:
        os._exit(1)


def _report(stderr: int, error: BaseException) -> None:
    """Write what went wrong to the runtime, as JSON."""
    if isinstance(error, OSError):
        error = from_os(error)
    hint = error.hint if isinstance(error, MinirunError) else ""
    text = str(error) or type(error).__name__
    os.write(stderr, jsonlite.dumps({"text": text[:3000], "hint": hint}).encode())


def finish(child: "Child | None") -> None:
    """Wait for NVIDIA's hook to be done. Raises HookError with what it reported."""
    if child is None:
        return
    said = bytearray()
    while said != _DONE and (chunk := os.read(child.stderr, 65536)):
        said += chunk
    os.close(child.stderr)
    if said == _DONE:
        return
    status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
    if status == 0:
        return
    silent = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
    report = jsonlite.loads(said.decode()) if said else {"text": silent, "hint": ""}
    raise HookError(f"{oci_config.GPU_HOOK}: {report['text']}", report["hint"])


def reap(child: "Child | None") -> None:
    """Collect the hook's process, which has said that it is done."""
    if child:
        os.waitpid(child.pid, 0)
