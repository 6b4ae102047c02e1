"""From a recipe to an image of the store: `minirun images build NAME`, and a run without a network.

docker pulls `ubuntu` from a registry, and so does minirun (rootfs_tools.registry.pull). Where none
can be reached, as in a class without a network, a recipe makes the first command of the README
work; a version (ubuntu:22.04) is never made so. If Ubuntu's own archive cannot be reached either,
its recipe takes Debian's packages: a substitute, said in one line when it is made, in its origin
(`minirun images`) and in its own /etc/os-release.
"""

import io
import json
from contextlib import ExitStack
from typing import Any, BinaryIO

from minirun.core.errors import ImageError
from minirun.image import store as shelf
from rootfs_tools import catalogue
from rootfs_tools.archives.saving import collected
from rootfs_tools.blobs import Blobs
from rootfs_tools.grammar import parse
from rootfs_tools.made import NewImage, date, epoch, saved, source_of, workshop
from rootfs_tools.recipe import bootstrap, contents, has_recipe, names, text
from rootfs_tools.recipe.bootstrap import Notify, ignore
from rootfs_tools.recipe.text import Recipe
from rootfs_tools.take import take
from rootfs_tools.tar.pack import pack_tree

_OCI = "org.opencontainers.image."
_RECIPE = "minirun.recipe"


def find_or_build(
    store: str, reference: str, notify: Notify, watch: Notify = ignore
) -> shelf.Image:
    """Return the image that `reference` names; build it if it is missing and has a recipe.

    `notify` gets one line if anything is built or stands in for something else. Raises ImageError.
    """
    try:
        return catalogue.resolve(store, reference)
    except ImageError:
        wanted = parse(reference)
        if not has_recipe(wanted):
            raise
    return build(store, wanted.familiar(), notify, watch)


def build(store: str, name: str, notify: Notify, watch: Notify = ignore) -> shelf.Image:
    """Build an image by the recipe `name`, or that of a file, and return it; an intact one is kept.

    `watch` gets a line for each step of what takes long, and an empty one when that has ended.

    Raises ImageError: no such recipe, or a step of it failed.
    """
    recipe = text.load(name)
    try:
        with catalogue.making(store, recipe.name):
            return _intact(store, recipe, notify) or _make(store, recipe, notify, watch)
    except OSError as error:
        raise shelf.failure(error, f"building {recipe.name}") from None


def _intact(store: str, recipe: Recipe, notify: Notify) -> shelf.Image | None:
    """Return the image that is there; None if it is not what was stored, which a line says.

    None too for one that was made by another version of the recipe. Raises ImageError, OSError.
    """
    name = recipe.name
    try:
        image = shelf.find(store, parse(name))
        if not image:
            return None
        fault = catalogue.verify(store, name)
        if not fault:
            return image if _made_by(store, name) in ("", _version(recipe)) else None
    except shelf.DamagedImage as error:
        fault = str(error)
    notify(f"image {name} is damaged ({fault}): building it again")
    return None


def _made_by(store: str, name: str) -> str:
    """Return the recipe that an image was made by; "" if it was not, or nothing says so."""
    try:
        manifest = json.loads(Blobs(store).document(catalogue.details(store, name)["manifest"]))
        return str(manifest["annotations"][_RECIPE])
    except (ImageError, KeyError, TypeError, ValueError):
        return ""


def _version(recipe: Recipe) -> str:
    return f"{recipe.name} {recipe.digest}"


def _make(store: str, recipe: Recipe, notify: Notify, watch: Notify) -> shelf.Image:
    try:
        with workshop(store) as folder, ExitStack() as stack:
            if recipe.packages.distribution:
                made = _of_packages(recipe, folder, stack, notify, watch)
            else:
                made = _of_contents(store, recipe, folder, stack, notify, watch)
            return take(store, recipe.name, source_of(made), mend=True)
    except bootstrap.UnreachableArchive as error:
        if not recipe.packages.substitute:
            raise
        return _substitute(store, recipe, error, notify, watch)


def _of_packages(
    recipe: Recipe, folder: str, stack: ExitStack, notify: Notify, watch: Notify
) -> NewImage:
    ready = bootstrap.prepare(recipe.packages, folder)
    notify(f"building {recipe.name}")
    programs, besides = contents.gather(recipe), io.BytesIO()
    contents.write(recipe, programs, ready.epoch, besides)
    found = bootstrap.fill(recipe.packages, ready, besides.getvalue(), watch)
    layer = _opened(folder, stack)
    pack_tree(found.tree, layer)
    return NewImage(
        origin=f"{found.release['PRETTY_NAME']}, built on this machine by {bootstrap.TOOL}",
        created=found.epoch,
        created_by=f"recipe {recipe.name}: {found.tool}, {len(found.packages)} packages",
        config=_config(recipe),
        annotations=_annotations(
            recipe, found.epoch, [*found.packages, *(each.provenance() for each in programs)],
            source=recipe.source or found.mirror, version=found.release.get("VERSION_ID", ""),
            tool=found.tool,
        ),
        layer=layer,
    )  # fmt: skip


def _of_contents(
    store: str, recipe: Recipe, folder: str, stack: ExitStack, notify: Notify, watch: Notify
) -> NewImage:
    """Return an image of what the recipe itself puts in, perhaps on top of another one."""
    notify(f"building {recipe.name}")
    base, created, annotations = None, 0, {}
    if recipe.base:
        name = _base(store, recipe.base, notify, watch).name
        base = stack.enter_context(collected(store, [name]))[0]
        digest, created = saved(base)
        annotations = {f"{_OCI}base.name": base.name, f"{_OCI}base.digest": digest}
    programs = contents.gather(recipe)
    created = epoch(lambda: max([created, *(each.date for each in programs)]))
    layer = _opened(folder, stack)
    contents.write(recipe, programs, created, layer)
    origin = ", ".join(each.origin for each in programs) or recipe.about
    return NewImage(
        origin=f"{origin}, by minirun's recipe {recipe.name}",
        created=created,
        created_by=f"recipe {recipe.name}: {origin}",
        config=_config(recipe),
        annotations=annotations | _annotations(
            recipe, created, [each.provenance() for each in programs], source=recipe.source,
            version=programs[0].version if programs else "",
        ),
        layer=layer, base=base,
    )  # fmt: skip


def _substitute(
    store: str, recipe: Recipe, why: ImageError, notify: Notify, watch: Notify
) -> shelf.Image:
    """Make the image of another recipe's, under this one's name. Raises ImageError."""
    other = recipe.packages.substitute
    system, instead = recipe.packages.distribution.capitalize(), other.capitalize()
    notify(f"{recipe.name} is made of {instead}'s packages, a substitute and not {system}: {why}")
    name = build(store, other, ignore, watch).name
    origin = catalogue.resolve(store, name).origin
    with collected(store, [name]) as (base,):
        digest, created = saved(base)
        made = NewImage(
            origin=f"not {system}: {origin}, under the name {recipe.name}",
            created=created,
            created_by=f"recipe {recipe.name}: {other} under another name",
            config={},
            annotations={
                f"{_OCI}title": recipe.name, f"{_OCI}description": f"not {system}: {origin}",
                f"{_OCI}created": date(created), f"{_OCI}base.name": base.name,
                f"{_OCI}base.digest": digest,
            },
            base=base,
        )  # fmt: skip
        return take(store, recipe.name, source_of(made), mend=True)


def _base(store: str, name: str, notify: Notify, watch: Notify) -> shelf.Image:
    """Return the image of a recipe, which is built if it is missing, or any image that is here."""
    known = name in names()
    return build(store, name, notify, watch) if known else catalogue.resolve(store, name)


def _opened(folder: str, stack: ExitStack) -> BinaryIO:
    """Return a file for a layer's archive, in the folder that is removed in the end."""
    return stack.enter_context(open(f"{folder}/layer.tar", "w+b"))


def _config(recipe: Recipe) -> dict[str, Any]:
    part = recipe.image
    return {
        "Env": list(part.env), "Entrypoint": list(part.entrypoint), "Cmd": list(part.cmd),
        "WorkingDir": part.workdir, "User": part.user, "Labels": dict(part.labels),
    }  # fmt: skip


def _annotations(
    recipe: Recipe, created: int, made_of: list[str], *, source: str, version: str, tool: str = ""
) -> dict[str, str]:
    """Return where an image comes from: image-spec annotations.md, and minirun's own."""
    found = {
        f"{_OCI}title": recipe.name, f"{_OCI}description": recipe.about,
        f"{_OCI}created": date(created), f"{_OCI}source": source, f"{_OCI}version": version,
        _RECIPE: _version(recipe), "minirun.tool": tool,
        "minirun.made-of": "\n".join(made_of),
    }  # fmt: skip
    return {key: value for key, value in found.items() if value}
