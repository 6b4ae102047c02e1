"""`minirun build`: an image of a Dockerfile."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from minirun.cli import as_runc, pull
from minirun.cli.flags import Flags, flag
from minirun.cli.images import exactly
from minirun.core.errors import ImageError, from_os
from minirun.core.rootfs.inroot import Root
from minirun.core.settings import Settings
from minirun.core.visible import clean, say
from minirun.image import recipe, store
from minirun.image.dockerfile import parse
from minirun.image.dockerfile.evaluate import PROXIES
from minirun.image.dockerfile.ignore import Ignore
from minirun.image.dockerfile.trees import FolderTree
from minirun.image.grammar import new_name
from minirun.image.registry import pull as registry
from minirun.running.build.builder import Builder, BuildOptions

NAMES = ("Dockerfile", "Containerfile")
"""The second is podman's name for it."""


class Build(Flags):
    """Build an image from a Dockerfile."""

    command = "build"
    tag: list[str] = flag("-t")
    file: str = flag("-f")
    build_arg: list[str]
    label: list[str]
    target: str
    platform: str
    network: str = flag(default="none")
    no_cache: bool
    pull: bool
    quiet: bool = flag("-q")
    iidfile: str


def main(args: "list[str]", settings: Settings) -> int:
    """Build an image; return 0. Raises MinirunError, with docker's exit status 1."""
    return as_runc(lambda: _main(args, settings))


def _main(args: "list[str]", settings: Settings) -> int:
    flags = Build(args)
    exactly(flags, 1, "minirun build [-t NAME] FOLDER")
    flags.check("network", "none", "host")
    with _context(flags) as (text, folder):
        file = parse.parse(text)
        ignore = Ignore(_ignored(flags, folder))
        options = _options(flags)
        _warn_unused(options, file)
        with closing(FolderTree(folder, ignore)) as tree:
            tell = (lambda line: None) if flags.quiet else _tell
            builder = Builder(settings, file, tree, options, _finder(flags, settings), tell)
            images = builder.build()
    if flags.iidfile:
        with open(flags.iidfile, "w", encoding="ascii") as output:
            output.write(images[0].digest)
    for image in images:
        if not flags.quiet:
            print(clean(f"Successfully tagged {image.name}"))
    print(images[0].digest)
    return 0


@contextmanager
def _context(flags: Build) -> Iterator[tuple[str, str]]:
    """Yield the Dockerfile's text, and the folder that COPY takes files from. Raises ImageError."""
    place = flags.args[0]
    if place == "-":
        with tempfile.TemporaryDirectory(prefix="minirun-build-") as empty:
            yield _read("-"), empty
        return
    if not os.path.isdir(place):
        hint = "a folder; - reads a Dockerfile from standard input"
        if place in recipe.names():
            hint = f"minirun images build {place} makes it by its recipe"
        raise ImageError(f"unable to prepare context: path {place!r} not found", hint, status=1)
    if flags.file:
        yield _read(flags.file), place
        return
    text = _read_in(place, *NAMES)
    if text is None:
        text = f"failed to read dockerfile: {place}: there is no Dockerfile"
        raise ImageError(text, "-f FILE", status=1)
    yield text, place


def _read(path: str) -> str:
    """Return the text of the Dockerfile that the user names. Raises ImageError."""
    with _failures(path):
        if path == "-":
            data = sys.stdin.buffer.read(parse.LIMIT + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(parse.LIMIT + 1)
        return data.decode()


def _read_in(folder: str, *names: str) -> str | None:
    """Return the text of the first of these files that is there; None if none is.

    The folder may be a stranger's: no link leads out of it. Raises ImageError.
    """
    for name in names:
        with _failures(f"{folder}/{name}"), closing(Root.at(folder)) as root:
            try:
                return root.read(name, parse.LIMIT + 1).decode()
            except FileNotFoundError:
                continue
    return None


@contextmanager
def _failures(path: str) -> Iterator[None]:
    """Make an ImageError of what fails while `path` is read."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ImageError(f"{path}: byte {error.start} is not UTF-8", status=1) from None
    except OSError as error:
        text = f"failed to read dockerfile: {path}: {error.strerror}"
        raise ImageError(text, from_os(error).hint, status=1) from None


def _ignored(flags: Build, folder: str) -> str:
    """Return the rules of what is left out: those beside -f's file before the folder's own."""
    named = None
    if flags.file not in ("", "-"):
        beside, name = os.path.split(flags.file)
        named = _read_in(beside or ".", f"{name}.dockerignore")
    if named is not None:
        return named
    return _read_in(folder, ".dockerignore", ".containerignore") or ""


def _options(flags: Build) -> BuildOptions:
    """Return what the flags say. Raises ImageError for a name that no image can have."""
    for name in flags.tag:
        new_name(name)
    arguments = {}
    for text in flags.build_arg:
        name, equals, value = text.partition("=")
        if equals or name in os.environ:
            arguments[name] = value if equals else os.environ[name]
    labels = dict(text.partition("=")[::2] for text in flags.label)
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = int(epoch) if epoch.isdecimal() else int(time.time())
    return BuildOptions(
        tuple(flags.tag), arguments, labels, flags.target, flags.platform,
        use_cache=not flags.no_cache, host_network=flags.network == "host", quiet=flags.quiet,
        now=now * 10**9,
    )  # fmt: skip


def _warn_unused(options: BuildOptions, file: parse.Dockerfile) -> None:
    """Say which --build-arg no ARG takes, as docker does."""
    rows = [*file.args, *(row for stage in file.stages for row in stage.instructions)]
    words = (word for row in rows if row.name == "ARG" for word in row.text.split())
    taken = {word.partition("=")[0] for word in words}
    unused = sorted(set(options.arguments) - taken - PROXIES)
    if unused:
        say(f"one or more build-args were not consumed: {', '.join(unused)}")


def _finder(flags: Build, settings: Settings) -> Callable[[str, str], store.Image]:
    """Return how the image of a FROM is found: here, or in its registry."""

    def find(name: str, platform: str) -> store.Image:
        view = pull.shown("Unable to find image '{}' locally", flags.quiet)
        if flags.pull:
            watch = pull.steps(flags.quiet)
            return registry.pull_or_build(settings.store, name, say, view, platform, watch)
        return pull.find(name, settings, view, platform, quiet=flags.quiet)

    return find


def _tell(line: str) -> None:
    print(clean(line), flush=True)
