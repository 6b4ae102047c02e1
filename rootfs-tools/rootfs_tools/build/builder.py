"""The stages of a Dockerfile, one after the other, and the image that the last one becomes.

A stage that the wanted one does not need is left out. Image and layers come into the store by the
same way as those that are pulled, so SIGKILL at any moment leaves a store that the next command
trusts, and the layers that were finished are the next build's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from minirun.core.errors import ImageError, MinirunError
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.settings import Settings
from minirun.image import store as shelf
from rootfs_tools import catalogue, image_spec
from rootfs_tools.archives.saving import SavedImage, SavedSource
from rootfs_tools.build.copy import copy, make_directory
from rootfs_tools.build.documents import documents, last
from rootfs_tools.build.network import BuildNetwork
from rootfs_tools.build.run import run
from rootfs_tools.build.secrets import Secrets
from rootfs_tools.build.stage import BuildStage, StepLayer, Workshop, stage_of
from rootfs_tools.dockerfile import expand, mounts
from rootfs_tools.dockerfile.evaluate import Copy, RunStep, StageState, Work
from rootfs_tools.dockerfile.parse import Dockerfile, Instruction
from rootfs_tools.dockerfile.trees import FolderTree
from rootfs_tools.take import platform_of, take, this_platform, using

FindImage = Callable[[str, str], shelf.Image]
"""Takes an image's name and a platform ("" for this machine's); pulls it if it is missing."""
_COMMENT = "minirun build"
_PLACED = ("dockerfile parse error", "Dockerfile:")
"""How an error begins that says already at which line it is."""


class BuildOptions(NamedTuple):
    """What the flags of `build` say."""

    names: tuple[str, ...]
    """-t. Without one the image is localhost/build:ID."""
    arguments: Mapping[str, str]
    """--build-arg."""
    labels: Mapping[str, str]
    target: str
    """The name or the number of the wanted stage; "" for the last one."""
    platform: str
    use_cache: bool
    network: BuildNetwork
    """What --network and --allow say."""
    quiet: bool
    now: int
    """When the build begins, nanoseconds since 1970."""
    secrets: Secrets
    """What --secret and --ssh give."""


class Builder:
    """One build."""

    def __init__(
        self, settings: Settings, file: Dockerfile, context: FolderTree, options: BuildOptions,
        find: FindImage, say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._settings, self._file, self._options = settings, file, options
        self._find, self._say = find, say
        self._stages: dict[int, BuildStage] = {}
        self._shop = Workshop(
            settings, settings.store, context, self._origin, options.network,
            options.use_cache, options.quiet, options.now, options.secrets,
        )  # fmt: skip
        self._arguments = self._global_arguments()

    def build(self) -> list[shelf.Image]:
        """Carry the file out; return the image, once for each of its names. Raises MinirunError."""
        wanted = self._target(self._options.target)
        with using(self._settings.store):
            for number in sorted(self._needed(wanted)):
                self._stage(number)
            built = self._stages[wanted]
            manifest, config = documents(built, self._options.labels, self._options.now)
            digest = image_spec.digest_of(config)
            names = self._options.names or (f"localhost/build:{digest[7:19]}",)
            return [self._named(name, manifest, config, built) for name in names]

    def _named(self, name: str, manifest: bytes, config: bytes, built: BuildStage) -> shelf.Image:
        image = SavedImage(name, image_spec.MANIFESTS[0], manifest, config, ())
        return take(self._settings.store, name, SavedSource(image, catalogue.BUILT), None)

    # --- stages ----------------------------------------------------------------------------------

    def _target(self, target: str) -> int:
        """Return the number of the stage that --target names. Raises ImageError."""
        if not target:
            return len(self._file.stages) - 1
        number = self._number(target.lower(), len(self._file.stages))
        if number is None:
            raise ImageError(f"failed to reach build target {target} in Dockerfile")
        return number

    def _number(self, name: str, before: int) -> int | None:
        """Return the stage of that name or number; None if none is so called."""
        for number, stage in enumerate(self._file.stages[:before]):
            if stage.name == name:
                return number
        return whole(name, 0, before - 1)

    def _needed(self, number: int) -> set[int]:
        """Return a stage, and all that it begins with or copies from."""
        found: set[int] = set()
        rest = [number]
        while rest:
            each = rest.pop()
            if each not in found:
                found.add(each)
                rest += self._mentioned(each)
        return found

    def _mentioned(self, number: int) -> list[int]:
        """Return the stages before it that a stage names."""
        stage = self._file.stages[number]
        names = [expand.word(stage.image, self._arguments, self._file.escape)]
        names += [each.flag("from") for each in stage.instructions if each.flag("from")]
        for each in stage.instructions:
            names += mounts.origins(each.values("mount"))
        others = (self._number(name.lower(), number) for name in names)
        return [other for other in others if other is not None]

    def _stage(self, number: int) -> None:
        """Build a stage; those that it needs are built. Raises MinirunError."""
        wanted = self._file.stages[number]
        with _placed(wanted.base):
            stage = self._base(number)
        platform = stage.platform or this_platform()
        known = self._arguments | _platform_arguments(platform)
        state = StageState(stage.config, self._options.arguments, known, self._file.escape)
        for count, each in enumerate(wanted.instructions, 2):
            self._announce(number, count, each)
            with _placed(each):
                self._step(each, state, stage)
        stage.config, stage.author = state.config, state.author
        self._stages[number] = stage

    def _base(self, number: int) -> BuildStage:
        """Return a new stage that begins as FROM says. Raises MinirunError."""
        wanted = self._file.stages[number]
        name = expand.word(wanted.image, self._arguments, self._file.escape)
        if not name:
            raise ImageError(f"base name ({wanted.image}) should not be blank")
        other = self._number(name.lower(), number)
        below = self._stages[other] if other is not None else self._image(name, wanted.base)
        self._announce(number, 1, wanted.base)
        return BuildStage(tuple(below.layers), below.config, tuple(below.history), below.platform)

    def _image(self, name: str, base: Instruction) -> BuildStage:
        """Return an image as a stage; `scratch` is an empty one. Raises MinirunError."""
        wanted = expand.word(base.flag("platform"), self._arguments, self._file.escape)
        wanted = wanted or self._options.platform
        if name == "scratch":
            return BuildStage(platform=platform_of(wanted) if wanted else None)
        return self._stage_of(self._find(name, wanted))

    def _origin(self, name: str) -> BuildStage:
        """Return what COPY --from means: a stage, or an image. Raises MinirunError."""
        number = self._number(name.lower(), len(self._file.stages))
        if number is not None:
            if number not in self._stages:
                raise ImageError(f"--from={name}: that stage is not built before this one")
            return self._stages[number]
        return self._stage_of(self._find(name, self._options.platform))

    def _stage_of(self, image: shelf.Image) -> BuildStage:
        """Return an image of the store as a stage. Raises ImageError, OSError."""
        stage = stage_of(self._settings.store, image)
        if stage.config.get("OnBuild"):
            raise ImageError(f"{image.name} has ONBUILD triggers", "minirun knows none of them")
        return stage

    def _announce(self, number: int, count: int, instruction: Instruction) -> None:
        """Say which step follows, as podman does: [1/2] STEP 3/7: RUN make."""
        stages = len(self._file.stages)
        lead = f"[{number + 1}/{stages}] " if stages > 1 else ""
        total = len(self._file.stages[number].instructions) + 1
        self._say(f"{lead}STEP {count}/{total}: {_text(instruction)}")

    # --- steps -----------------------------------------------------------------------------------

    def _step(self, instruction: Instruction, state: StageState, stage: BuildStage) -> None:
        work: Work | None = state.take(instruction)
        outcome = _carry_out(work, stage, self._shop) if work else None
        if outcome:
            origin = "" if outcome.is_new else "using cache "
            self._say(f"--> {origin}{stage.layers[-1].diff_id[7:19]}")
        created = outcome.created if outcome else last(stage.history, self._options.now)
        made_by = _history_text(instruction, state)
        stage.history.append(image_spec.History(created, made_by, not outcome, _COMMENT))

    def _global_arguments(self) -> dict[str, str]:
        """Return what FROM lines see: ARG before the first one, and those of every build."""
        known = _platform_arguments(this_platform())
        state = StageState({}, self._options.arguments, known, self._file.escape)
        for each in self._file.args:
            with _placed(each):
                state.take(each)
        return known | dict(text.split("=", 1) for text in state.shown_arguments())


def _carry_out(work: Work, stage: BuildStage, shop: Workshop) -> StepLayer | None:
    """Do a step, and put its layer on the stage; None: it needs no layer.

    Raises MinirunError, OSError.
    """
    if isinstance(work, RunStep):
        return run(work, stage, shop)
    if isinstance(work, Copy):
        return copy(work, stage, shop)
    return make_directory(work, stage, shop)


@contextmanager
def _placed(instruction: Instruction) -> Iterator[None]:
    """Let an error say at which line it is. Raises ImageError."""
    try:
        yield
    except MinirunError as error:
        text = str(error)
        if not text.startswith(_PLACED):
            text = f"Dockerfile:{instruction.line}: {text}"
        raise ImageError(text, error.hint or "", status=1) from None
    except OSError as error:
        found = shelf.failure(error, f"Dockerfile:{instruction.line}")
        raise ImageError(str(found), found.hint or "", status=1) from None


def _platform_arguments(platform: image_spec.Platform) -> dict[str, str]:
    """Return the arguments that every build has: docker's "automatic platform ARGs"."""
    found: dict[str, str] = {}
    for prefix, each in (("TARGET", platform), ("BUILD", this_platform())):
        parts = zip(("OS", "ARCH", "VARIANT"), each, strict=True)
        found |= {f"{prefix}PLATFORM": str(each), **{f"{prefix}{key}": v for key, v in parts}}
    return found


def _text(instruction: Instruction) -> str:
    """Return an instruction in one line, without its here-documents."""
    flags = [f"--{name}={value}" if value else f"--{name}" for name, value in instruction.flags]
    return " ".join([instruction.name, *flags, " ".join(instruction.text.split())])


def _history_text(instruction: Instruction, state: StageState) -> str:
    """Return what the history says of a step; of RUN also which arguments it has seen."""
    text = _text(instruction)
    if instruction.name != "RUN":
        return text
    text = "".join([text, *(f"\n{each.text}{each.name}" for each in instruction.documents)])
    if arguments := state.shown_arguments():
        text = f"RUN |{len(arguments)} {' '.join(arguments)} {text.removeprefix('RUN ')}"
    return text
