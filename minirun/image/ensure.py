"""An image for `run IMAGE`: the stored one, or one built by its recipe."""

from minirun.core.errors import ImageError
from minirun.image import store as shelf
from minirun.image.reference import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def find_or_build(store: str, reference: str, notify: "Callable[[str], None]") -> shelf.Image:
    """Return the image that `reference` names; build it if it is missing and has a recipe.

    `notify` gets one line if anything is built or stands in for something else. Raises ImageError.
    """
    try:
        return shelf.resolve(store, reference)
    except ImageError:
        wanted = parse(reference)
        if not shelf.has_recipe(wanted):
            raise
    from minirun.image import build  # json, subprocess and tempfile: most runs build nothing

    return build.build(store, wanted.familiar(), notify)
