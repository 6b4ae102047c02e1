"""Signals: the names of Python's module `signal`, such as SIGKILL and pidfd_send_signal(2).

They come from its half in C, where numbers are plain int: `signal` itself imports enum, 3 ms.
The man page: signal(7).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from signal import *  # noqa: F403  (mypy knows no _signal)
else:
    from _signal import *  # noqa: F403
