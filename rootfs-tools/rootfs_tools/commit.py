"""`minirun commit`: what a container has written becomes a layer over its image's layers.

The layer is packed as `build` packs that of a RUN: without the places that the runtime has made to
mount on, and without what is mounted, such as volumes. The configuration is the image's, with what
the container was started with: command, variables, directory and user. docker keeps the flags of a
run apart from what it adds to them; here config.json has both, so what minirun itself adds (PATH,
HOSTNAME, TERM, variables of GPUs) is taken off again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from minirun.cgroups import cgroup_of, stopping
from minirun.common import docker_record
from minirun.core.container import Container
from minirun.core.errors import ImageError, MinirunError, StateError
from minirun.core.keeping import state
from minirun.image import store as shelf
from minirun.oci.image_user import in_layers
from rootfs_tools import catalogue, image_spec, made
from rootfs_tools.archives.saving import SavedImage, SavedSource
from rootfs_tools.blobs import Blobs
from rootfs_tools.build.container import pack_changes
from rootfs_tools.build.documents import documents
from rootfs_tools.build.stage import moment, put, stage_of
from rootfs_tools.dockerfile.evaluate import StageState
from rootfs_tools.dockerfile.parse import Instruction, parse
from rootfs_tools.take import take, using

CHANGES = (
    "CMD", "ENTRYPOINT", "ENV", "EXPOSE", "LABEL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
)  # fmt: skip
"""What --change takes: docker's list without ONBUILD, and STOPSIGNAL."""
_GPU_VARIABLES = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")


class CommitOptions(NamedTuple):
    """What the flags of `commit` say."""

    name: str
    """The image's; "" for localhost/commit:ID."""
    message: str
    author: str
    changes: tuple[Instruction, ...]
    pause: bool
    """The container stands still meanwhile."""


def changes_of(texts: list[str]) -> tuple[Instruction, ...]:
    """Return the instructions of --change. Raises ImageError, which quotes the wrong one."""
    found: list[Instruction] = []
    for text in texts:
        try:
            (stage,) = parse(f"FROM scratch\n{text}").stages
        except (ImageError, ValueError) as error:
            words = str(error).partition(": ")[2] or "one instruction is a change"
            raise ImageError(f"invalid --change {text!r}: {words}", _known()) from None
        for each in stage.instructions:
            if each.name not in CHANGES:
                words = f"{each.name} is not a valid change command"
                raise ImageError(f"invalid --change {text!r}: {words}", _known())
        found += stage.instructions
    return tuple(found)


def _known() -> str:
    return f"{', '.join(CHANGES)}, as in a Dockerfile"


def commit(container: Container, options: CommitOptions) -> shelf.Image:
    """Make the image, and return it. Raises MinirunError, OSError."""
    settings, record = container.settings, container.record
    if record.status == state.CREATING:
        raise StateError(f"container {container.name} is not complete: it has no files yet")
    if not container.config.layers or not docker_record.of(record).image:
        why = "was made of a bundle, and has no image to be one more of"
        text = f"container {container.name} {why}"
        raise StateError(text, f"minirun export {container.name} | minirun import - NAME")
    now = made.epoch(time.time) * 10**9
    with using(settings.store):
        stage = stage_of(settings.store, _image(container))
        stage.config = _configuration(container, stage.config)
        changed = StageState(stage.config, {}, {})
        for each in options.changes:
            changed.take(each)
        stage.config, stage.author = changed.config, options.author
        with Blobs(settings.store).draft() as output:
            with _paused(container) if options.pause else _moving():
                pack_changes(container, output)
            digest, _ = Blobs(settings.store).adopt(output)
        put(digest, stage, settings.store, is_new=True)
        made_by = " ".join(record.args or ())
        row = image_spec.History(moment(now), made_by, False, options.message)
        stage.history.append(row)
        manifest, config = documents(stage, {}, now)
        name = options.name or f"localhost/commit:{image_spec.digest_of(config)[7:19]}"
        image = SavedImage(name, image_spec.MANIFESTS[0], manifest, config, ())
        return take(settings.store, name, SavedSource(image, catalogue.BUILT), None)


def _image(container: Container) -> shelf.Image:
    """Return an image of the container's layers: its own name may be another's by now.

    Raises ImageError.
    """
    store, layers = container.settings.store, tuple(container.config.layers)
    names = [f"{row['name']}:{row['tag']}" for row in shelf.list_images(store)]
    docker = docker_record.of(container.record)
    for name in (docker.image or "", *names):
        try:
            found = catalogue.resolve(store, name)
        except ImageError:
            continue
        if found.layers == layers:
            return found
    text = f"the image {docker.image} of container {container.name} is gone, or another now"
    raise ImageError(text, f"minirun export {container.name} | minirun import - NAME")


def _configuration(container: Container, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the image's configuration, with what the container was started with."""
    found, record, process = dict(config), container.record, container.config.process
    args, entry = list(record.args or ()), list(config.get("Entrypoint") or ())
    if entry and args[: len(entry)] == entry:
        args = args[len(entry) :]
    else:
        found.pop("Entrypoint", None)
    found["Cmd"] = args
    variables = {text.partition("=")[0]: text for text in _variables(container, config)}
    found["Env"] = list(variables.values())
    user = process.get("user") or {}
    ids = (user.get("uid", 0), user.get("gid", 0))
    own = in_layers(config.get("User") or "", container.config.layers)
    if ids != (own.uid, own.gid):
        found["User"] = f"{ids[0]}:{ids[1]}"
    if process.get("cwd", "/") != (config.get("WorkingDir") or "/"):
        found["WorkingDir"] = process["cwd"]
    if signal := (docker_record.of(record).declared or {}).get("stop_signal"):
        found["StopSignal"] = signal
    return found


def _variables(container: Container, config: Mapping[str, Any]) -> list[str]:
    """Return the variables that image and flags have given."""
    env = list(container.config.process.get("env") or ())
    added = 3 if container.config.process.get("terminal") else 2  # PATH, TERM, HOSTNAME
    own = _names(config)
    return [
        text for text in env[added:]
        if text.partition("=")[0] in own or text.partition("=")[0] not in _GPU_VARIABLES
    ]  # fmt: skip


def _names(config: Mapping[str, Any]) -> set[str]:
    return {text.partition("=")[0] for text in config.get("Env") or ()}


@contextmanager
def _moving() -> Iterator[None]:
    yield


@contextmanager
def _paused(container: Container) -> Iterator[None]:
    """Let the container stand still, if it runs. It goes on even if this process is killed.

    A child waits for the end of this process, or of its work, and lets the container go on then.
    Raises StateError, OSError.
    """
    if container.record.status != state.RUNNING:
        yield
        return
    cgroup = cgroup_of(container)
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            os.setsid()  # a signal of the terminal is not for it
            os.close(write_end)
            os.read(read_end, 1)
            cgroup.set_frozen(False)
        finally:
            os._exit(0)
    os.close(read_end)
    try:
        try:
            stopping.freeze(cgroup)
        except MinirunError as error:
            raise StateError(str(error), "commit --pause=false: its files may change") from None
        yield
    finally:
        os.close(write_end)
        os.waitpid(child, 0)
