"""The shell of a lesson: one bash for all cells, so that variables stay; a child of the kernel.

bash reads a line for each block, sources the block's file, and writes its exit status on a pipe of
its own. It is in a session of its own: an interrupt of a cell comes to it from here, and ends the
command that runs, but not the shell. It ends when its standard input does, also if the notebook's
kernel was killed, and then removes what the lesson has made: containers and scratch folder.

    /tmp/minirun-lesson-XXXX/    held with flock(2) by the kernel: a free one was left behind
        containers/              the lesson's own state root, whatever $MINIRUN_ROOT named before
        work/                    where the commands run: $scratch
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from minirun.core.lazy import lazy

with lazy:
    import fcntl  # Unix alone, and this file is imported anywhere

_PREFIX = "minirun-lesson-"
_LOOP = """
leave() {
    cd /
    [ ! -d "$LESSON/containers/.labs" ] || minirun lab reset --all
    [ ! -d "$LESSON/containers" ] || minirun list --quiet | xargs --no-run-if-empty minirun rm -f
    rm -rf --one-file-system -- "$LESSON"
}
trap : INT
trap 'leave > /dev/null 2>&1' EXIT
while IFS= read -r _; do
    . "$LESSON/block" > "$LESSON/said" 2>&1 < /dev/null 3>&-
    echo $? >&3
done
"""


class Session:
    """A shell that runs the blocks of a lesson, one after the other."""

    def __init__(self) -> None:
        for stale in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            _sweep(stale)
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._folder.chmod(0o711)  # the root of a user namespace has to come to its container
        self._held = os.open(self._folder, os.O_DIRECTORY | os.O_CLOEXEC)
        _lock(self._held)
        (self._folder / "work").mkdir()
        self._before = os.environ.get("MINIRUN_ROOT")
        os.environ["MINIRUN_ROOT"] = str(self._folder / "containers")
        self._status, told = os.pipe()
        self._shell = subprocess.Popen(
            ["bash", "-c", f"exec 3>&{told} {told}>&-\n{_LOOP}"], stdin=subprocess.PIPE,
            cwd=self._folder / "work", env=self._environment(), pass_fds=[told], text=True,
            start_new_session=True,
        )  # fmt: skip
        os.close(told)

    def _environment(self) -> dict[str, str]:
        beside = Path(sys.executable).parent
        return os.environ | {
            "PATH": f"{beside}:{os.environ.get('PATH', os.defpath)}", "LESSON": str(self._folder),
            "scratch": str(self._folder / "work"), "LC_ALL": "C.UTF-8", "PAGER": "cat",
            "PYTHON_COLORS": "0",  # json.tool of Python 3.14, since Jupyter sets FORCE_COLOR
        }  # fmt: skip

    @property
    def alive(self) -> bool:
        """True as long as the shell takes blocks."""
        return self._shell.poll() is None

    def run(self, commands: str) -> tuple[str, int]:
        """Run a block; return what it printed on both streams, and its exit status.

        An interrupt (SIGINT) is passed on to the command that runs, and raised when it has ended.
        """
        assert self._shell.stdin
        (self._folder / "block").write_text(commands + "\n", encoding="utf-8")
        self._shell.stdin.write("\n")
        self._shell.stdin.flush()
        try:
            status = os.read(self._status, 16)
        except KeyboardInterrupt:
            self._interrupt()
            raise
        said = self._output()
        return said, int(status) if status else self._shell.wait()

    def _output(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self._folder / "said").read_text(encoding="utf-8", errors="replace")
        return ""

    def _interrupt(self) -> None:
        os.killpg(self._shell.pid, signal.SIGINT)
        if select.select([self._status], [], [], 5)[0]:
            os.read(self._status, 16)
        else:
            os.killpg(self._shell.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the shell, which removes what the lesson has made. Idempotent."""
        if self._shell.stdin and not self._shell.stdin.closed:
            self._shell.stdin.close()
            self._shell.wait()
            if os.environ.get("MINIRUN_ROOT") == str(self._folder / "containers"):
                del os.environ["MINIRUN_ROOT"]
                if self._before:
                    os.environ["MINIRUN_ROOT"] = self._before
            os.close(self._status)
            os.close(self._held)


def _sweep(folder: Path) -> None:
    """Remove a folder of ours whose kernel and shell were both killed."""
    with contextlib.suppress(OSError):
        there = os.open(folder, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(there).st_uid != os.geteuid():
                return
            _lock(there)
            _remove_containers(folder / "containers")
            shutil.rmtree(folder)
        finally:
            os.close(there)


def _lock(folder: int) -> None:
    """Hold a folder until its descriptor is closed. Raises BlockingIOError if another does."""
    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_containers(root: Path) -> None:
    minirun = [str(Path(sys.executable).with_name("minirun")), "--root", str(root)]
    if (root / ".labs").exists():
        subprocess.run([*minirun, "lab", "reset", "--all"], capture_output=True, check=False)
    for container in root.glob("[!.]*"):
        subprocess.run([*minirun, "rm", "-f", container.name], capture_output=True, check=False)
