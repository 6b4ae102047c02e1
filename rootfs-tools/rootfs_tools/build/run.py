"""RUN: whether a build before has done it, and how it has ended."""

from contextlib import ExitStack

from minirun.core.errors import ImageError
from rootfs_tools.blobs import Blobs
from rootfs_tools.build import container, mounts
from rootfs_tools.build.stage import BuildStage, StepLayer, Workshop, add, from_cache
from rootfs_tools.dockerfile.evaluate import PROXIES, RunStep
from rootfs_tools.image_spec import digest_of


def run(work: RunStep, stage: BuildStage, shop: Workshop) -> StepLayer:
    """Run a command, and put the layer on the stage. Raises MinirunError, OSError."""
    host_network = _host_network(work.network, allowed=shop.host_network)
    if not stage.layers:
        raise ImageError("RUN: there is nothing in the image yet", "COPY a program first")
    env = tuple(entry for entry in work.env if entry.partition("=")[0] not in PROXIES)
    content = mounts.content_keys(work, shop)
    asked = (stage.chain, "RUN", work._replace(env=env), host_network, content)
    key = digest_of(repr(asked).encode("utf-8", "replace"))
    if found := from_cache(key, stage, shop):
        return found
    with ExitStack() as stack:
        output = stack.enter_context(Blobs(shop.store).draft())
        prepared = mounts.prepare(work, shop, stack)
        work = work._replace(env=(*work.env, *prepared.env))
        status = container.run(
            shop.settings, work, stage.paths(), prepared.mounts, output,
            host_network=host_network, quiet=shop.quiet,
        )  # fmt: skip
        if status:
            shown = " ".join(work.argv)
            text = f'process "{shown}" did not complete successfully: exit code: {status}'
            raise ImageError(text, "" if host_network else "a step has no network: --network host")
        return add(key, output, stage, shop)


def _host_network(word: str, *, allowed: bool) -> bool:
    """Return True if a step is to have the host's network. Raises ImageError."""
    if word not in ("default", "none", "host"):
        raise ImageError(f"RUN --network={word}: not known", "default, none or host")
    if word == "host" and not allowed:
        raise ImageError("RUN --network=host: not allowed", "minirun build --network host")
    return allowed and word != "none"
