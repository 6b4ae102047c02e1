"""Plays a notebook in a real Jupyter kernel, and prints it with its outputs.

    python -m tutorials.publish.play NOTEBOOK

A process of its own: the kernel runs as the user, and in the environment, that this one has.
"""

import sys
import tempfile

import nbformat
from nbclient import NotebookClient


def main() -> None:
    """Play the notebook that the command line names."""
    notebook = nbformat.read(sys.argv[1], as_version=4)
    client = NotebookClient(notebook, timeout=60, kernel_name="python3")
    with tempfile.TemporaryDirectory() as sockets:
        manager = client.create_kernel_manager()
        manager.transport, manager.ip = "ipc", f"{sockets}/kernel"  # no port for others to reach
        with client.setup_kernel():
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index)
    nbformat.write(notebook, sys.stdout)


if __name__ == "__main__":
    main()
