"""The forms in which an object shows itself in a notebook, beside text and HTML: as a widget."""

import sys
from typing import Any

from minirun.core.lazy import lazy

with lazy:
    import anywidget  # 300 ms, in notebooks alone


def in_notebook() -> bool:
    """Return True in a notebook's kernel: its front end may know widgets."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def can_show_widgets() -> bool:
    """Return True in a kernel that has anywidget."""
    if not in_notebook():
        return False
    try:
        return hasattr(anywidget, "AnyWidget")
    except ImportError:
        return False


def bundle(widget: Any, text: str, html: str) -> dict[str, Any]:
    """Return all forms: front ends show the richest one that they know. `widget`: None for none."""
    forms: dict[str, Any] = {"text/plain": text, "text/html": html}
    if widget:
        forms["application/vnd.jupyter.widget-view+json"] = {
            "version_major": 2, "version_minor": 0, "model_id": widget.model_id,
        }  # fmt: skip
    return forms
