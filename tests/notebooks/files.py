"""Notebooks as files. pytest looks at each name in a test's own module, so that a lazy one there
is imported in each worker; nbformat takes 0.7 s."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from minirun.core.lazy import lazy

with lazy:
    import nbformat


def read(path: Path) -> Any:
    """Return a notebook. Raises OSError."""
    return nbformat.read(path, as_version=4)


def write(notebook: Any, path: Path) -> None:
    nbformat.write(notebook, path)


def of(document: dict[str, Any]) -> Any:
    """Return the notebook that a JSON document is."""
    return nbformat.from_dict(document)


def validate(notebook: Any) -> None:
    """Raises nbformat's ValidationError."""
    nbformat.validate(notebook)
