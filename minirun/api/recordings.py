"""Recordings: runs of minirun as files, to show what happens on machines that can run nothing.

Some come with minirun (minirun/recordings/); `minirun --log FILE --log-format json run …` makes
more, and so does a copy of a container's events.jsonl.
"""

import os
from pathlib import Path

from minirun import recordings
from minirun.api.timeline import Timeline
from minirun.core.errors import StateError, UsageError
from minirun.show import find, recording


def replay(name_or_path: "str | os.PathLike[str]") -> "Timeline | list[Timeline]":
    """Return the timeline of a recording, by its name or its path.

    A file that holds several containers, as Figure 1's does, gives a list of them. Raises
    UsageError for what is neither name nor file, or holds no events.
    """
    path = Path(name_or_path)
    if not path.is_file() and str(name_or_path) in recordings.RECORDINGS:
        path = recordings.path(str(name_or_path))
    try:
        found = [Timeline(each) for each in recording.read(path)]
    except OSError as error:
        what = (error.strerror or "cannot be read").lower()
        hint = f"a file of events, or one of {', '.join(recordings.RECORDINGS)}"
        raise UsageError(f"no recording {str(name_or_path)!r}: {what}", hint) from None
    except StateError as error:
        raise UsageError(str(error)) from None
    return found[0] if len(found) == 1 else found


def of_container(root: str, container_id: str) -> Timeline:
    """Return the timeline of a container below the state root `root`, living or removed.

    Raises StateError if there is none (any more).
    """
    path = find.of_container(container_id, root)
    found = [each for each in recording.read(path) if each.id == container_id] if path else []
    if not found:
        raise StateError(f"nothing is recorded of container {container_id!r}")
    return Timeline(found[0])
