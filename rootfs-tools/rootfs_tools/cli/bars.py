"""The progress of a pull on a terminal: one bar for each layer. Imported only there."""

import threading

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn

from rootfs_tools.take import LayerStep

_WORDS = {
    "pulling": "Downloading", "exists": "Already exists", "verified": "Download complete",
    "unpacking": "Extracting", "done": "Pull complete", "pushing": "Pushing", "pushed": "Pushed",
    "present": "Layer exists", "mounted": "Mounted",
}  # fmt: skip

_LAST = ("done", "exists", "pushed", "present", "mounted")


class Bars:
    """A bar for each layer, as long as it is being worked on; threads may share it."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.fields[layer]}"), TextColumn("{task.description:17}"))
        console = Console(stderr=True)
        self._most = console.height - 2
        self._bars = Progress(*columns, BarColumn(), DownloadColumn(), console=console)
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()

    def show(self, step: LayerStep) -> None:
        """Move a layer's bar; the first step of all makes the bars appear."""
        with self._lock:
            if not self._tasks:
                self._bars.start()
            if step.digest not in self._tasks:
                total = step.size or None
                layer = step.digest[7:19]
                self._tasks[step.digest] = self._bars.add_task("", total=total, layer=layer)
        # of more layers than lines, those that are done make room
        seen = step.kind not in _LAST or len(self._tasks) <= self._most
        self._bars.update(
            self._tasks[step.digest],
            completed=step.done,
            description=_WORDS[step.kind],
            visible=seen,
        )

    def close(self) -> None:
        """Leave the bars as they are."""
        if self._tasks:
            self._bars.stop()
