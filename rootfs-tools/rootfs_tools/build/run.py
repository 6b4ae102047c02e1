"""RUN: whether a build before has done it, and how it has ended."""

from contextlib import ExitStack

from minirun.core.errors import ImageError
from rootfs_tools.blobs import Blobs
from rootfs_tools.build import container, mounts, network
from rootfs_tools.build.stage import BuildStage, StepLayer, Workshop, add, from_cache
from rootfs_tools.dockerfile.evaluate import PROXIES, RunStep
from rootfs_tools.image_spec import digest_of


def run(work: RunStep, stage: BuildStage, shop: Workshop) -> StepLayer:
    """Run a command, and put the layer on the stage. Raises MinirunError, OSError."""
    word = shop.network.of_step(work.network)
    if not stage.layers:
        raise ImageError("RUN: there is nothing in the image yet", "COPY a program first")
    key = _key(work, stage, shop, word)
    if found := from_cache(key, stage, shop):
        return found
    with ExitStack() as stack:
        output = stack.enter_context(Blobs(shop.store).draft())
        prepared = mounts.prepare(work, shop, stack)
        ended = container.run(
            shop.settings, work._replace(env=(*work.env, *prepared.env)), stage.paths(),
            prepared.mounts, output, shop.network.request(word),
            host_network=word == network.HOST, quiet=shop.quiet,
        )  # fmt: skip
        if ended.fell_back:
            shop.network.fall_back()
            word = network.NONE
            key = _key(work, stage, shop, word)
        if ended.status:
            shown = " ".join(work.argv)
            text = f'process "{shown}" did not complete successfully: exit code: {ended.status}'
            hint = "this step has no network: --network bridge" if word == network.NONE else ""
            raise ImageError(text, hint)
        return add(key, output, stage, shop)


def _key(work: RunStep, stage: BuildStage, shop: Workshop, word: str) -> str:
    """Return the key of the step in the cache; `word`: the network that it has."""
    env = tuple(entry for entry in work.env if entry.partition("=")[0] not in PROXIES)
    content = mounts.content_keys(work, shop)
    asked = (stage.chain, "RUN", work._replace(env=env), word, content)
    return digest_of(repr(asked).encode("utf-8", "replace"))
