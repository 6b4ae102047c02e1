"""`minirun pull`, and the run of an image that is not here.

Where no registry can be reached at all, an image with a recipe (rootfs_tools.recipe) is made here
instead, and one line says so. What a registry answered is never passed over in this way.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from difflib import get_close_matches

from minirun.core.errors import ImageError
from minirun.image import Reference, store
from rootfs_tools import catalogue, recipe
from rootfs_tools import take as taking
from rootfs_tools.grammar import parse
from rootfs_tools.recipe import build, has_recipe
from rootfs_tools.recipe.bootstrap import Notify, ignore
from rootfs_tools.registry import settings
from rootfs_tools.registry.errors import NotFound, Unreachable
from rootfs_tools.registry.source import Registry
from rootfs_tools.registry.transport import Patience, Transport

HASTY = Patience(hasty=4)
"""With another way to go: 4 seconds for the first sign of life."""
PullView = Callable[[str], AbstractContextManager[taking.LayerObserver]]
"""Takes the name that is pulled, and shows it to the user as long as it lasts."""


def pull(
    where: str,
    reference: str,
    platform: str = "",
    notify: taking.LayerObserver | None = None,
    patience: Patience | None = None,
) -> store.Image:
    """Bring an image from its registry into the store `where`, and return it.

    Raises ImageError; Unreachable only if no registry has answered at all.
    """
    wanted = parse(reference)
    chosen = taking.platform_of(platform) if platform else None
    transport = Transport(patience)
    try:
        source = Registry(wanted, settings.load().endpoints(reference, wanted), transport)
        return taking.take(where, str(_name(wanted)), source, chosen, notify, mend=True)
    except NotFound as error:
        near = _nearest(where, wanted)
        hint = f"did you mean {near}?" if near else "minirun images lists what is here"
        if has_recipe(wanted):
            hint = f"minirun images build {wanted.familiar()} makes it here, by a recipe"
        raise NotFound(str(error), hint) from None
    except Unreachable as error:
        if transport.answered:
            raise ImageError(str(error), error.hint) from None
        raise
    except OSError as error:
        raise store.failure(error, f"pulling {reference}") from None
    finally:
        transport.close()


def find_or_pull(
    where: str,
    reference: str,
    say: Notify,
    view: PullView,
    platform: str = "",
    watch: Notify = ignore,
) -> store.Image:
    """Return an image that is here, or pull it, or make it here where no registry is to be reached.

    `watch`: see rootfs_tools.recipe.build.

    Raises ImageError.
    """
    try:
        found = catalogue.resolve(where, reference)
        if not platform or _is_for(where, found, platform):
            return found
    except ImageError:
        pass  # missing, or broken, which a pull mends
    return pull_or_build(where, reference, say, view, platform, watch)


def pull_or_build(
    where: str,
    reference: str,
    say: Notify,
    view: PullView,
    platform: str = "",
    watch: Notify = ignore,
) -> store.Image:
    """Pull an image, even if it is here; make it here where no registry is to be reached.

    Raises ImageError.
    """
    wanted = parse(reference)
    other_way = has_recipe(wanted) and not platform
    try:
        with view(str(wanted)) as notify:
            return pull(where, reference, platform, notify, HASTY if other_way else None)
    except Unreachable as error:
        if not other_way:
            raise
        reason = f"no registry can be reached ({error})"
    with suppress(ImageError):
        found = catalogue.resolve(where, reference)
        say(f"{reason}: taking {found.name} as it is here")
        return found
    return build.find_or_build(where, reference, lambda line: say(f"{reason}: {line}"), watch)


@contextmanager
def silent(_: str) -> Iterator[taking.LayerObserver]:
    """Show nothing: a PullView."""
    yield lambda step: None


def _name(wanted: Reference) -> Reference:
    """Return the name in the store: of a digest alone, a tag made of it."""
    return wanted._replace(tag=wanted.tag or wanted.digest.replace(":", "-")[:19], digest="")


def _is_for(where: str, image: store.Image, platform: str) -> bool:
    """Return True if a local image runs on a platform, as far as image.json says."""
    wanted = taking.platform_of(platform)
    architecture = catalogue.details(where, image.name).get("architecture", "")
    return wanted[:2] == ("linux", architecture)


def _nearest(where: str, wanted: Reference) -> str:
    """Return the local name that looks like the wanted one; "" if none does."""
    here = [f"{row['name']}:{row['tag']}" for row in store.list_images(where)]
    here += [f"{name}:latest" for name in recipe.names()]
    found = get_close_matches(str(wanted), here, n=1, cutoff=0.75)
    return found[0].removesuffix(":latest") if found else ""
