"""RUN: whether a build before has done it, where its caches lie, and how it has ended."""

import os
from collections.abc import Mapping
from contextlib import ExitStack

from minirun.core.errors import ImageError
from minirun.core.settings import unprivileged
from minirun.image.blobs import Blobs
from minirun.image.dockerfile.cache import StepCache
from minirun.image.dockerfile.evaluate import PROXIES, Run
from minirun.image.oci import digest_of
from minirun.running.build import container
from minirun.running.build.stage import Outcome, Stage, Workshop, add, from_cache, id_of, mode_of


def run(work: Run, stage: Stage, shop: Workshop) -> Outcome:
    """Run a command, and put the layer on the stage. Raises MinirunError, OSError."""
    host_network = _host_network(work.network, allowed=shop.host_network)
    if not stage.layers:
        raise ImageError("RUN: there is nothing in the image yet", "COPY a program first")
    env = tuple(entry for entry in work.env if entry.partition("=")[0] not in PROXIES)
    asked = (stage.chain, "RUN", work._replace(env=env), host_network)
    key = digest_of(repr(asked).encode("utf-8", "replace"))
    if found := from_cache(key, stage, shop):
        return found
    with ExitStack() as stack:
        output = stack.enter_context(Blobs(shop.store).draft())
        mounts = tuple(_mount(row, shop.store, stack) for row in work.mounts)
        status = container.run(
            shop.settings, work, stage.paths(), mounts, output,
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


def _mount(row: Mapping[str, str], store: str, stack: ExitStack) -> container.Mount:
    """Return a mount of RUN --mount. Raises ImageError, OSError."""
    read_only = {"readonly", "ro"} & row.keys() and row.get("readonly", row.get("ro")) != "false"
    options: tuple[str, ...] = ("ro",) if read_only else ()
    if row["type"] == "tmpfs":
        size = (f"size={row['size']}",) if "size" in row else ()
        return container.Mount("", row["target"], (*options, *size))
    if row["type"] == "bind":
        raise ImageError("RUN --mount=type=bind: not known here", "COPY what the step needs")
    alone = row.get("sharing", "shared") != "shared"
    cache = StepCache(store).mount(row.get("id") or row["target"], alone=alone)
    folder = stack.enter_context(cache)
    ids = [id_of(row.get(name, "0"), name) for name in ("uid", "gid")]
    if not unprivileged():  # without root it is root's in the container as it is
        os.chown(folder, *ids)
    os.chmod(folder, mode_of(row.get("mode", "0755"), "mode"))
    return container.Mount(folder, row["target"], options)
