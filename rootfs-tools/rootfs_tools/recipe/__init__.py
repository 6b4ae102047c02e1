"""Recipes: images that are made here, each from one small text file (rootfs-tools/recipes).

    text         the file, read strictly
    build        from a recipe to an image of the store
    bootstrap    [packages]: a distribution's packages, installed by mmdebstrap
    aptsources   where these packages come from
    contents     [[programs]], [[files]] …: what a recipe puts in besides

The same input gives the same digest: the date in an image is that of what it is made of, and no
name of this machine is in it. What it is made of stands in the annotations of its manifest.
"""

from __future__ import annotations

import os

from minirun.image import Reference

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "texts")
"""Where minirun's own recipes are: a link to rootfs-tools/recipes, or a copy of it."""
SUFFIX = ".toml"


def has_recipe(reference: Reference) -> bool:
    """Return True if minirun has a recipe for the image of that name."""
    return str(reference) in [f"{name}:latest" for name in names()]


def names() -> list[str]:
    """Return the names of minirun's own recipes."""
    return sorted(n.removesuffix(SUFFIX) for n in os.listdir(FOLDER) if n.endswith(SUFFIX))
