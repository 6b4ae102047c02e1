"""Building images out of Debian's packages.

    busybox   static busybox of the package installed here               (minirun.image.busybox)
    debian    minimal Debian, from the sources of packages set up here   (minirun.image.debian)
    ubuntu    the same tree under another name: a substitute, said in one line when it is made,
              in its origin (`minirun images`) and in its own /etc/os-release

docker pulls `ubuntu` from a registry, and so does minirun (minirun.image.registry.pull). Where none
can be reached, as in a class without a network, the substitute makes the first command of the
README work; a version (ubuntu:22.04) is never substituted.
"""

import os
import subprocess
from collections.abc import Callable
from typing import Any

from minirun.core.errors import ImageError
from minirun.image import busybox, catalogue, debian
from minirun.image import store as shelf
from minirun.image.catalogue import Draft
from minirun.image.grammar import parse

Notify = Callable[[str], None]
"""Takes one line for the user."""


def find_or_build(store: str, reference: str, notify: Notify) -> shelf.Image:
    """Return the image that `reference` names; build it if it is missing and has a recipe.

    `notify` gets one line if anything is built or stands in for something else. Raises ImageError.
    """
    try:
        return catalogue.resolve(store, reference)
    except ImageError:
        wanted = parse(reference)
        if not catalogue.has_recipe(wanted):
            raise
    return build(store, wanted.familiar(), notify)


def build(store: str, name: str, notify: Notify) -> shelf.Image:
    """Build the image `name` by its recipe and return it; an intact one is kept.

    Raises ImageError: no such recipe, or a step of it failed.
    """
    if name not in catalogue.RECIPES:
        raise ImageError(f"no recipe for {name}", f"there are {', '.join(catalogue.RECIPES)}")
    try:
        with catalogue.making(store, name):
            catalogue.sweep(store)
            return _intact(store, name, notify) or _make(store, name, notify)
    except OSError as error:
        raise shelf.failure(error, f"building {name}") from None


def _intact(store: str, name: str, notify: Notify) -> shelf.Image | None:
    """Return the image that is there; one that is not what was stored is removed."""
    try:
        fault = catalogue.verify(store, name)
        if not fault:
            return catalogue.resolve(store, name)
    except ImageError as error:
        if str(error).startswith("No such image"):
            return None
        fault = str(error)
    notify(f"image {name} is damaged ({fault}): building it again")
    catalogue.remove_image(store, name)
    return None


def _make(store: str, name: str, notify: Notify) -> shelf.Image:
    if name == "ubuntu":
        notify("ubuntu is made of Debian's packages, a substitute and not Ubuntu")
        build(store, "debian", lambda line: None)
    else:
        notify(f"building {name}")
    with Draft(store, name) as draft:
        return draft.commit(**_fill(store, name, draft))


def _fill(store: str, name: str, draft: Draft) -> dict[str, Any]:
    if name == "busybox":
        return busybox.fill(draft)
    if name == "debian":
        return debian.fill(draft)
    return _substitute(store, draft)


def _substitute(store: str, draft: Draft) -> dict[str, Any]:
    """Share the files of the image `debian` (hard links; directories are copied)."""
    source = catalogue.details(store, "debian")
    lower = catalogue.resolve(store, "debian").layers[0]
    command = ["cp", "--archive", "--link", f"{lower}/.", draft.layer()]
    env = os.environ | {"LC_ALL": "C"}
    result = subprocess.run(command, capture_output=True, text=True, env=env)
    if result.returncode:
        raise ImageError(f"building ubuntu: {result.stderr.strip()}")
    kept = {key: source[key] for key in ("recipe", "env", "cmd")}
    return kept | {"origin": f"not Ubuntu: {source['origin']}, under the name ubuntu"}
