"""Where a lab's files are, below the state root: the command and the notebook look there."""

from pathlib import Path

LABS = ".labs"


def graded_mark(folder: Path) -> Path:
    """Return the file beside a lab's folder that says: it is graded, show no solution."""
    return folder.with_name(f".{folder.name}.graded")
