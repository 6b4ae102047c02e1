"""`minirun pull`, and what a run does whose image is not here: pull it, and show how that goes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from minirun.core.lazy import lazy

with lazy:
    from rootfs_tools.cli import bars

from minirun.cli.flags import ANY, Flags, flag
from minirun.core import events
from minirun.core.errors import ImageError
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import clean, say
from rootfs_tools import catalogue
from rootfs_tools.grammar import parse
from rootfs_tools.pull_log import PullLog, logged
from rootfs_tools.recipe.bootstrap import ignore
from rootfs_tools.registry import pull as registry
from rootfs_tools.registry.errors import NotFound, Unreachable
from rootfs_tools.take import LayerObserver, LayerStep, check_runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.image.store import Image


class Pull(Flags):
    """Pull an image from its registry."""

    command = "pull"
    platform: str
    quiet: bool = flag("-q")


def main(args: list[str], settings: Settings) -> int:
    """Pull images, one after the other; return the exit status."""
    flags = Pull(args)
    flags.takes(1, ANY)
    for name in flags.args:
        if settings.log and settings.log_format == "json":
            events.open_log(settings.log, name, 0o644)
        with _logged(shown("", flags.quiet), "minirun pull")(name) as notify:
            image = registry.pull(settings.store, name, flags.platform, notify)
        events.close_log()
        if flags.quiet:
            print(clean(image.name))
        else:
            print(clean(f"{image.name}  {image.digest}  {image.origin}"))
    return 0


def for_run(
    name: str, settings: Settings, container_id: str, *, pull: str, platform: str, quiet: bool
) -> tuple[Image, bytes]:
    """Return the image of a run, and what a pull writes of itself, for the container's log.

    What is here and `pull`, the word of --pull, decide. Raises ImageError.
    """
    if platform:
        check_runs(platform)
    log = PullLog(container_id)
    try:
        image = _for_run(name, settings, pull, platform, quiet=quiet)
    finally:
        written = log.close()
    return image, written


def _for_run(name: str, settings: Settings, pull: str, platform: str, *, quiet: bool) -> Image:
    if pull == "never":
        return catalogue.resolve(settings.store, name)
    if pull == "always":
        view, place = _logged(shown("", quiet), "--pull always: whatever is here"), settings.store
        return registry.pull_or_build(place, name, say, view, platform, steps(quiet))
    missing = shown("Unable to find image '{}' locally", quiet)
    view = _logged(missing, "no such image is in the store")
    return find(name, settings, view, platform, quiet=quiet)


def find(
    name: str,
    settings: Settings,
    view: registry.PullView | None = None,
    platform: str = "",
    *,
    quiet: bool = True,
) -> Image:
    """Return an image that is here, or pull it, or make it here. Raises ImageError."""
    view = view or registry.silent
    try:
        return registry.find_or_pull(settings.store, name, say, view, platform, steps(quiet))
    except NotFound:
        raise
    except Unreachable as error:
        text = f"No such image: {parse(name)}, and no registry can be reached: {error}"
        raise ImageError(text, error.hint) from None


def _logged(inner: registry.PullView, why: str) -> registry.PullView:
    """Return a view that writes events too."""

    @contextmanager
    def view(name: str) -> Iterator[LayerObserver]:
        with inner(name) as notify, logged(name, why, notify) as told:
            yield told

    return view


def shown(lead: str, quiet: bool) -> registry.PullView:
    """Return how a pull is shown: bars on a terminal, lines elsewhere, nothing if `quiet`.

    `lead` is said before the first step, with the image's name in it.
    """

    @contextmanager
    def view(name: str) -> Iterator[LayerObserver]:
        if lead:
            say(lead.format(name))
        inner = bars.Bars() if os.isatty(2) else _LayerLines()
        try:
            yield inner.show
        finally:
            inner.close()

    return registry.silent if quiet else view


def steps(quiet: bool) -> Callable[[str], None]:
    """Return what shows on a terminal, in one line, what the making of an image is at."""

    def show(step: str) -> None:
        room = os.get_terminal_size(2).columns - 1
        os.write(2, f"\r\x1b[K{clean(step)[:room]}\r".encode())

    return ignore if quiet or not os.isatty(2) else show


class _LayerLines:
    """One line for what is done with a layer, in docker's words."""

    def show(self, step: LayerStep) -> None:
        """Print a step, if it is one of those that stand for themselves."""
        if step.kind in _LINES:
            os.write(2, f"{step.digest[7:19]}: {_LINES[step.kind]}\n".encode())

    def close(self) -> None:
        """Nothing is open."""


_LINES = {
    "exists": "Already exists",
    "verified": "Download complete",
    "done": "Pull complete",
    "pushed": "Pushed",
    "present": "Layer already exists",
    "mounted": "Mounted from another repository",
}
