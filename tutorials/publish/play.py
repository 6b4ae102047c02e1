"""Plays a notebook in a real Jupyter kernel, and prints it with its outputs.

    python -m tutorials.publish.play NOTEBOOK [CELL]

Before the cell with that number (from the end: -1 is the last one) it says "ready" on stderr and
waits for a line on its standard input, so that somebody else can look at what the cells have made.
A process of its own: the kernel runs as the user, and in the environment, that this one has.
"""

import sys
import tempfile

import nbformat
from nbclient import NotebookClient


def main() -> None:
    """Play the notebook that the command line names."""
    notebook = nbformat.read(sys.argv[1], as_version=4)
    stop = range(len(notebook.cells))[int(sys.argv[2])] if len(sys.argv) > 2 else -1
    client = NotebookClient(notebook, timeout=60, kernel_name="python3")
    with tempfile.TemporaryDirectory() as sockets:
        manager = client.create_kernel_manager()
        manager.transport, manager.ip = "ipc", f"{sockets}/kernel"  # no port for others to reach
        play(client, stop)
    nbformat.write(notebook, sys.stdout)


def play(client: NotebookClient, stop: int) -> None:
    """Execute the cells in their order; wait before the one with the number `stop`."""
    with client.setup_kernel():
        for index, cell in enumerate(client.nb.cells):
            if index == stop:
                sys.stderr.write("ready\n")
                sys.stderr.flush()
                sys.stdin.readline()
            client.execute_cell(cell, index)


if __name__ == "__main__":
    main()
