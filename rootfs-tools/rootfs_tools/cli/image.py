"""`minirun image`, `load`: docker's commands for images, by docker's names."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from minirun.cli import part, verb
from minirun.cli.flags import Flags, flag
from minirun.core.errors import ImageError, UsageError, from_os
from minirun.core.keeping.settings import Settings, unprivileged
from minirun.core.keeping.visible import clean
from minirun.engines import rootless_config
from minirun.oci import bundle as bundle_config
from rootfs_tools import recipe
from rootfs_tools.archives import layout, loading
from rootfs_tools.archives.files import opened
from rootfs_tools.choose import choose
from rootfs_tools.cli import build, history, image_inspect, images, pull, push, save, system
from rootfs_tools.image_bundle import CONFIG, new_bundle, unpack_image
from rootfs_tools.take import platform_of, take, this_platform
from rootfs_tools.unpack import close_directories


class ImageCommand(Flags):
    """Manage images."""

    command, mixed = "image", False


class Load(Flags):
    """Load images from an archive."""

    command = "load"
    input: str = flag("-i")
    quiet: bool = flag("-q")
    platform: str


class Unpack(Flags):
    """Unpack an image of a layout into a bundle."""

    command = "image unpack"
    rootless: bool
    platform: str


def main_load(args: list[str], settings: Settings) -> int:
    """Load all images of an archive or a layout; return 0. Raises ImageError."""
    flags = Load(args)
    flags.takes(0, 1)
    path = flags.input or "-"
    if path == "-" and sys.stdin.isatty():
        raise UsageError("requested load from stdin, but stdin is empty", "minirun load -i FILE", 1)
    platform = platform_of(flags.platform) if flags.platform else None
    path, tag = (path, "") if path == "-" or os.path.exists(path) else layout.split(path)
    with opened(path) as files:
        found = loading.images(files)
        if tag:
            found = [loading.Loadable((), layout.tagged(files, tag))]
        if flags.args and len(found) > 1:
            raise ImageError(f"{path} holds {len(found)} images", "load them without a name")
        for each in found:
            names = tuple(flags.args) or each.names
            if not names:
                text = f"{path}: an image without a name"
                raise ImageError(text, f"minirun load -i {path} NAME")
            for name in names:
                image = take(settings.store, name, each.source, platform, mend=True)
                print(clean(image.name if flags.quiet else f"Loaded image: {image.name}"))
    return 0


def unpack(args: list[str], settings: Settings) -> int:
    """Make a bundle of an image in a layout or an archive; return 0. Raises MinirunError."""
    flags = Unpack(args)
    flags.takes(2)
    place, tag = layout.split(flags.args[0])
    bundle = os.path.abspath(flags.args[1])
    platform = platform_of(flags.platform) if flags.platform else this_platform()
    try:
        with opened(place) as files, new_bundle(bundle) as tree:
            source = loading.one(files, tag)
            image = choose(source, platform, exact=bool(flags.platform))
            strict = unpack_image(source, image, tree)
            _write_config(bundle, image.config.raw, tree, flags)
            close_directories(tree, strict)
    except OSError as error:
        raise from_os(error, "unpacking") from None
    return 0


def _write_config(bundle: str, image: Mapping[str, Any], tree: str, flags: Unpack) -> None:
    made = bundle_config.document(os.path.basename(bundle), image, tree)
    if flags.rootless or unprivileged():
        rootless_config.adapt(made)
    with open(f"{bundle}/{CONFIG}", "x", encoding="utf-8") as file:
        json.dump(made, file, indent=2)
        file.write("\n")


def _build(args: list[str], settings: Settings) -> int:
    """Build of a folder with a Dockerfile, as docker does, or by a recipe of that name."""
    words = [word for word in args if word not in ("-h", "--help")]
    if words and (
        words[-1] in recipe.names() or not (words[-1] == "-" or os.path.isdir(words[-1]))
    ):
        return images.main(["build", *args], settings)
    return build.main(args, settings)


def _prune(args: list[str], settings: Settings) -> int:
    """Ask, and remove unused layers: minirun's, as `system prune` is."""
    return int(part("minirun.docker.prune", "main_of_images")(args, settings))


COMMANDS: dict[str, Callable[[list[str], Settings], int]] = {
    "ls": images.main, "list": images.main, "load": main_load, "unpack": unpack,
    "save": save.main_save, "tag": save.main_tag, "rm": save.main_rmi,
    "history": history.main, "build": _build, "gc": system.main_gc,
    "inspect": image_inspect.main, "diff": image_inspect.main_diff,
    "import": images.main_import, "prune": _prune, "pull": pull.main, "push": push.main,
}  # fmt: skip
"""docker's, and minirun's own gc, unpack and diff."""


def main(args: list[str], settings: Settings) -> int:
    """Run one of the `image` commands; return its exit status."""
    name, rest = verb(ImageCommand(args), COMMANDS)
    return COMMANDS[name](rest, settings)
