"""Plays notebooks in real Jupyter kernels, one after the other, and prints them with their outputs.

    python -m tutorials.publish.play < REQUESTS

A request is one line, JSON: the notebook's file, the folder and the environment of its kernel. The
answer is one line too: the notebook, or, where a cell fails, the words of the error. A process of
its own: a kernel runs as the user that this one has. It plays many, since what it imports takes
longer than most notebooks do.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

from minirun.core.lazy import lazy

with lazy:  # seconds, and who only writes a request needs neither
    import nbclient
    import nbformat


class Request(NamedTuple):
    """A notebook to play."""

    file: str
    folder: str
    """The kernel's working directory."""
    env: dict[str, str]
    """The kernel's environment, all of it."""

    def line(self) -> str:
        """Return it as a line for this program."""
        return f"{json.dumps(self)}\n"


def main() -> None:
    """Play what standard input asks for, until it ends."""
    for answer in answers():
        print(json.dumps(answer), flush=True)


def answers() -> Iterator[Any]:
    """Yield each notebook when it has been played, or the error of the cell that failed."""
    for line in sys.stdin:
        try:
            yield played(Request(*json.loads(line)))
        except nbclient.exceptions.CellExecutionError as error:
            yield str(error)


def played(request: Request) -> Any:
    """Return the notebook with its outputs. Raises CellExecutionError."""
    notebook = nbformat.read(request.file, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3")
    with tempfile.TemporaryDirectory() as sockets:
        manager = client.create_kernel_manager()
        manager.transport, manager.ip = "ipc", f"{sockets}/kernel"  # no port for others to reach
        with client.setup_kernel(env=request.env, cwd=request.folder):
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index)
    return notebook


if __name__ == "__main__":
    main()
