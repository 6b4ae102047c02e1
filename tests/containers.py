"""A Container for tests of one step: a config.json in memory, and what its extras are."""

from pathlib import Path
from typing import Any

from minirun.core import extras
from minirun.core.config import Config
from minirun.core.container import Container
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from records import whole


def container(bundle: Path, **raw: Any) -> Container:
    """Return a container of `bundle`, prepared; nothing of it exists yet."""
    document = {"ociVersion": "1.2.0", "root": {"path": "rootfs"}, **raw}
    record = whole(str(bundle), status=state.CREATING, init=None, pid=0)
    settings = Settings(root=str(bundle.parent))
    made = Container(settings, Config(document, str(bundle)), record)
    extras.prepare(made)
    return made
