"""`minirun build`: an image of a Dockerfile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing

from minirun.cli import as_runc
from minirun.cli.flags import Flags, flag
from minirun.common import interrupts
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import clean, say
from minirun.image import store
from rootfs_tools import gc, made
from rootfs_tools.build import secrets
from rootfs_tools.build.builder import Builder, BuildOptions
from rootfs_tools.build.network import BuildNetwork
from rootfs_tools.cli import build_context, pull
from rootfs_tools.dockerfile import parse
from rootfs_tools.dockerfile.evaluate import PROXIES
from rootfs_tools.dockerfile.ignore import Ignore
from rootfs_tools.dockerfile.trees import FolderTree
from rootfs_tools.grammar import new_name
from rootfs_tools.registry import pull as registry


class Build(Flags):
    """Build an image from a Dockerfile."""

    command = "build"
    tag: list[str] = flag("-t")
    file: str = flag("-f")
    build_arg: list[str]
    label: list[str]
    target: str
    platform: str
    network: str
    allow: list[str]
    no_cache: bool
    pull: bool
    quiet: bool = flag("-q")
    iidfile: str
    secret: list[str]
    ssh: list[str]
    progress: str = flag(default="auto")
    rm: bool
    force_rm: bool
    load: bool
    compress: bool
    cache_from: list[str]
    provenance: str = flag(default="false")
    sbom: str = flag(default="false")


def main(args: list[str], settings: Settings) -> int:
    """Build an image; return 0. Raises MinirunError, with docker's exit status 1."""
    try:
        return as_runc(lambda: _main(args, settings))
    except BaseException as error:
        if interrupts.number_of(error):  # perhaps between the making of a draft and its `finally`
            gc.sweep(settings.store)
        raise


def _main(args: list[str], settings: Settings) -> int:
    flags = Build(args)
    flags.takes(1)
    flags.check("progress", "auto", "plain", "tty", "rawjson", "quiet")
    for name in ("provenance", "sbom"):
        flags.check(name, "false")  # an image of minirun's has no attestations
    options = _options(flags, settings)
    with build_context.opened(flags.args[0], flags.file, settings.store) as context:
        file = parse.parse(context.dockerfile)
        _warn_unused(options, file)
        with closing(FolderTree(context.folder, Ignore(context.ignored))) as tree:
            quiet = flags.quiet or flags.progress == "quiet"
            tell = (lambda line: None) if quiet else _print_line
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


def _options(flags: Build, settings: Settings) -> BuildOptions:
    """Return what the flags say. Raises ImageError for a name that no image can have, UsageError,
    NetworkError.
    """
    for name in flags.tag:
        new_name(name)
    arguments = {}
    for text in flags.build_arg:
        name, equals, value = text.partition("=")
        if equals or name in os.environ:
            arguments[name] = value if equals else os.environ[name]
    labels = dict(text.partition("=")[::2] for text in flags.label)
    usual = os.environ.get("MINIRUN_NETWORK", "")
    network = BuildNetwork(settings, flags.network, usual, flags.allow)
    return BuildOptions(
        tuple(flags.tag), arguments, labels, flags.target, flags.platform,
        use_cache=not flags.no_cache, network=network, quiet=flags.quiet,
        now=made.epoch(time.time) * 10**9, secrets=secrets.of_flags(flags.secret, flags.ssh),
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


def _print_line(line: str) -> None:
    print(clean(line), flush=True)
