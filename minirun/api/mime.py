"""The forms in which an object shows itself in a notebook, beside text and HTML: as a widget."""

import sys
from typing import Any


def in_notebook() -> bool:
    """Return True in a notebook's kernel: its front end may know widgets."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def available() -> Any:
    """Return minirun.api.widgets; None outside a kernel, or without anywidget."""
    if not in_notebook():
        return None
    try:
        from minirun.api import widgets  # 300 ms, in notebooks alone
    except ImportError:
        return None
    return widgets


def bundle(widget: Any, text: str, html: str) -> dict[str, Any]:
    """Return all forms: front ends show the richest one that they know. `widget`: None for none."""
    forms: dict[str, Any] = {"text/plain": text, "text/html": html}
    if widget:
        forms["application/vnd.jupyter.widget-view+json"] = {
            "version_major": 2, "version_minor": 0, "model_id": widget.model_id,
        }  # fmt: skip
    return forms
