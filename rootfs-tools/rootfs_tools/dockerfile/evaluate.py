"""What the instructions of a stage mean: changes of the configuration, and work to be done.

A :class:`StageState` takes one instruction after the other. It changes the image's configuration
(image-spec config.md, `config`), and returns the work of RUN, COPY, ADD and WORKDIR, of which each
makes a layer. Source: docs.docker.com/reference/dockerfile.
"""

import posixpath
import re
import signal
from collections.abc import Mapping
from typing import Any, NamedTuple

from minirun.common.ports import exposed
from minirun.common.quantities import nanoseconds
from minirun.core.config import DEFAULT_PATH
from minirun.core.errors import ImageError
from minirun.core.keeping.numbers import whole
from rootfs_tools.dockerfile import expand, mounts
from rootfs_tools.dockerfile.heredoc import Document, of_word
from rootfs_tools.dockerfile.parse import Instruction, wrong
from rootfs_tools.image_spec import DOCUMENT_LIMIT

DEFAULT_SHELL = ("/bin/sh", "-c")
PIPES = "/dev/pipes"
"""Where the program of a here-document lies while it runs: buildkit's name."""
PROXIES = frozenset(
    name for word in ("HTTP", "HTTPS", "FTP", "NO", "ALL")
    for name in (f"{word}_PROXY", f"{word.lower()}_proxy")
)  # fmt: skip
"""Arguments that need no ARG, and are in no history and no cache key."""
_REAL_TIME = re.compile(r"(?<=^RTMIN)\+\d{1,2}$|(?<=^RTMAX)-\d{1,2}$", re.ASCII)


class RunStep(NamedTuple):
    """RUN: a command in a container of what is built so far."""

    argv: tuple[str, ...]
    env: tuple[str, ...]
    """NAME=VALUE, the image's own and the arguments."""
    workdir: str
    user: str
    mounts: tuple[Mapping[str, str], ...]
    """--mount: type, target, and so on."""
    network: str
    script: str = ""
    """The content of a here-document that is a program of its own (#!); it is then argv[0]."""


class Copy(NamedTuple):
    """COPY and ADD: files of the build context, of another stage or of an image."""

    sources: tuple[str, ...]
    target: str
    """Absolute; with a slash at the end it is a directory."""
    origin: str
    """--from; "" for the context."""
    chown: str
    chmod: str
    unpacks: bool
    """ADD: local archives are unpacked."""
    documents: tuple[tuple[str, str], ...] = ()
    """Name and content of files that stand in the Dockerfile itself."""
    excludes: tuple[str, ...] = ()
    """--exclude: patterns of what is not copied."""
    parents: bool = False
    """--parents: below the target each file has the path that it has in the source."""


class MakeDirectory(NamedTuple):
    """WORKDIR: the directory is made if it is missing."""

    path: str
    user: str
    """Whose it becomes."""


Work = RunStep | Copy | MakeDirectory


class StageState:
    """A stage in the making: its configuration so far, and its variables."""

    def __init__(
        self, config: Mapping[str, Any], arguments: Mapping[str, str],
        known: Mapping[str, str], escape: str = "\\",
    ) -> None:  # fmt: skip
        """Begin with the configuration of the base image.

        `arguments` are those of --build-arg; `known` the values of arguments that stand before the
        first FROM, and of those that every build has (TARGETARCH …).
        """
        self.config: dict[str, Any] = {key: value for key, value in config.items() if value}
        self.author = ""
        self._given, self._known, self._escape = arguments, known, escape
        self._args: dict[str, str] = {}
        rows = (entry.partition("=") for entry in config.get("Env") or ())
        self._variables = {name: value for name, _, value in rows}
        if "PATH" not in self._variables:  # as docker: no image that it builds is without
            self._set({"PATH": DEFAULT_PATH})
        self._has_cmd = False

    def take(self, instruction: Instruction) -> Work | None:
        """Carry out one instruction, or return the work that it is. Raises ImageError."""
        method = getattr(self, f"_take_{instruction.name.lower()}")
        try:
            work: Work | None = method(instruction)
            self._check_size()
        except ImageError as error:
            raise wrong(instruction.line, str(error), error.hint or "") from None
        return work

    def _check_size(self) -> None:
        """Refuse what no configuration could hold, before the memory is full of it."""
        labels = self.config.get("Labels", {})
        texts = (*self._args.values(), *self._variables.values(), *labels.values())
        if sum(map(len, texts)) > DOCUMENT_LIMIT:
            raise ImageError(f"variables and labels of more than {DOCUMENT_LIMIT} characters")

    def shown_arguments(self) -> tuple[str, ...]:
        """Return the arguments that RUN sees, NAME=VALUE, as the history shows them."""
        return tuple(f"{name}={value}" for name, value in self._args.items() if self._counts(name))

    def _counts(self, name: str) -> bool:
        """Return True for an argument the history shows: not hidden by ENV, and no proxy."""
        return name not in self._variables and name not in PROXIES

    def _expand(self, text: str) -> str:
        return expand.word(text, self._args | self._variables, self._escape)

    def _words(self, instruction: Instruction) -> tuple[str, ...]:
        """Return the words, of a JSON list or plain, with their variables filled in."""
        if instruction.words is not None:
            return tuple(map(self._expand, instruction.words))
        return expand.words(instruction.text, self._args | self._variables, self._escape)

    def _pairs(self, instruction: Instruction) -> dict[str, str]:
        return expand.pairs(instruction.text, self._args | self._variables, self._escape)

    # --- variables -------------------------------------------------------------------------------

    def _take_arg(self, instruction: Instruction) -> None:
        for word in expand.split(instruction.text, self._escape):
            name, equals, default = word.partition("=")
            name = self._expand(name)
            if not name:
                raise ImageError(f"ARG: {word!r} has no name")
            if name in self._given:
                self._args[name] = self._given[name]
            elif equals:
                self._args[name] = self._expand(default)
            elif name in self._known:
                self._args[name] = self._known[name]

    def _take_env(self, instruction: Instruction) -> None:
        self._set(self._pairs(instruction))

    def _set(self, variables: Mapping[str, str]) -> None:
        self._variables |= variables
        self.config["Env"] = [f"{name}={value}" for name, value in self._variables.items()]

    # --- the configuration -----------------------------------------------------------------------

    def _take_label(self, instruction: Instruction) -> None:
        self.config["Labels"] = {**self.config.get("Labels", {}), **self._pairs(instruction)}

    def _take_maintainer(self, instruction: Instruction) -> None:
        self.author = instruction.text

    def _take_user(self, instruction: Instruction) -> None:
        self.config["User"] = self._expand(instruction.text)

    def _take_cmd(self, instruction: Instruction) -> None:
        self.config["Cmd"] = self._command(instruction)
        self._has_cmd = True

    def _take_entrypoint(self, instruction: Instruction) -> None:
        self.config["Entrypoint"] = self._command(instruction)
        if not self._has_cmd:  # that of the base image was meant for its own entrypoint
            self.config.pop("Cmd", None)

    def _take_shell(self, instruction: Instruction) -> None:
        if not instruction.words:
            raise ImageError("SHELL requires the arguments to be in JSON form")
        self.config["Shell"] = list(instruction.words)

    def _take_stopsignal(self, instruction: Instruction) -> None:
        self.config["StopSignal"] = name = self._expand(instruction.text)
        base = _REAL_TIME.sub("", name.upper().removeprefix("SIG"))
        if not whole(name, 1, 64) and f"SIG{base}" not in signal.Signals.__members__:
            raise ImageError(f"Invalid signal: {name}")

    def _take_volume(self, instruction: Instruction) -> None:
        for word in self._words(instruction):
            if not word.strip():
                raise ImageError("VOLUME specified can not be an empty string")
            self.config.setdefault("Volumes", {})[word] = {}

    def _take_expose(self, instruction: Instruction) -> None:
        for word in self._words(instruction):
            ports = exposed(word)
            if ports is None:
                raise ImageError(f"invalid containerPort: {word}")
            rows: dict[str, Any] = {port: {} for port in ports}
            self.config["ExposedPorts"] = {**self.config.get("ExposedPorts", {}), **rows}

    def _take_healthcheck(self, instruction: Instruction) -> None:
        if instruction.text.upper() == "NONE":
            self.config["Healthcheck"] = {"Test": ["NONE"]}
            return
        word, *command = instruction.text.split(maxsplit=1)
        if word.upper() != "CMD" or not command:
            raise ImageError(f"unknown type {word!r} in HEALTHCHECK (try CMD)")
        is_list = instruction.words is not None
        test = ["CMD", *(instruction.words or ())] if is_list else ["CMD-SHELL", *command]
        check: dict[str, Any] = {"Test": test}
        for name, value in instruction.flags:
            key = "".join(part.capitalize() for part in name.split("-"))
            check[key] = _count(value) if name == "retries" else _interval(name, value)
        self.config["Healthcheck"] = check

    # --- work ------------------------------------------------------------------------------------

    def _take_workdir(self, instruction: Instruction) -> MakeDirectory:
        path = self._absolute(self._expand(instruction.text))
        self.config["WorkingDir"] = path
        return MakeDirectory(path, self.config.get("User", ""))

    def _take_run(self, instruction: Instruction) -> RunStep:
        proxies = {name: value for name, value in self._given.items() if name in PROXIES}
        variables = {"PATH": DEFAULT_PATH} | proxies | self._args | self._variables
        argv, script = self._command(instruction), ""
        if instruction.documents:
            argv, script = self._script(instruction)
        return RunStep(
            argv=tuple(argv),
            env=tuple(f"{name}={value}" for name, value in variables.items()),
            workdir=self.config.get("WorkingDir", "/"), user=self.config.get("User", ""),
            mounts=tuple(
                self._mount(value) for name, value in instruction.flags if name == "mount"
            ),
            network=instruction.flag("network") or "default", script=script,
        )  # fmt: skip

    def _script(self, instruction: Instruction) -> tuple[list[str], str]:
        """Return the words, and the program if it is one itself, of a RUN with here-documents."""
        shell = self.config.get("Shell") or DEFAULT_SHELL
        documents = instruction.documents
        if not of_word(instruction.text):  # the shell reads them
            rest = "".join(f"\n{each.text}{each.name}" for each in documents)
            return [*shell, instruction.text + rest], ""
        content = documents[0].content()
        if content.startswith("#!"):
            return [f"{PIPES}/{checked_name(documents[0].name)}"], content
        return [*shell, content], ""

    def _take_copy(self, instruction: Instruction) -> Copy:
        words = self._words(instruction)
        if len(words) < 2:
            text = "requires at least two arguments, but only one was provided"
            raise ImageError(f"{instruction.name} {text}. Destination could not be determined")
        target = self._absolute(words[-1])
        if words[-1].endswith(("/", "/.")) or words[-1] == ".":
            target = target.rstrip("/") + "/"
        documents = {each.name: each for each in instruction.documents}
        raw = instruction.words or expand.split(instruction.text, self._escape, expand.BLANKS)
        names = [of_word(word) for word in raw]
        if names[-1] in documents:
            raise ImageError(f"{instruction.name} cannot accept a heredoc as a destination")
        if len(words) > 2 and not target.endswith("/"):
            what = "its destination must be a directory and end with a /"
            raise ImageError(
                f"when using {instruction.name} with more than one source file, {what}"
            )
        return Copy(
            tuple(word for word, name in zip(words[:-1], names, strict=False)
                  if name not in documents),
            target, instruction.flag("from"),
            self._expand(instruction.flag("chown")), self._expand(instruction.flag("chmod")),
            unpacks=instruction.name == "ADD",
            documents=tuple((checked_name(name), self._content(documents[name]))
                            for name in names[:-1] if name in documents),
            excludes=tuple(map(self._expand, instruction.values("exclude"))),
            parents=instruction.switch("parents"),
        )  # fmt: skip

    def _content(self, document: Document) -> str:
        """Return what is in a here-document, with its variables if they are to be filled in."""
        text = document.content()
        if not document.expands:
            return text
        return expand.document(text, self._args | self._variables)

    def _take_add(self, instruction: Instruction) -> Copy:
        found = self._take_copy(instruction)
        for source in found.sources:
            if "://" in source or source.startswith("git@"):
                raise ImageError(f"ADD {source}: an address", "fetch it, and COPY it")
        return found

    def _absolute(self, path: str) -> str:
        workdir = self.config.get("WorkingDir") or "/"
        return posixpath.normpath("/" + posixpath.join(workdir, path)).replace("//", "/")

    def _command(self, instruction: Instruction) -> list[str]:
        """Return a command's words; what is no JSON list is the shell's."""
        if instruction.words is not None:
            return list(instruction.words)
        return [*(self.config.get("Shell") or DEFAULT_SHELL), instruction.text]

    def _mount(self, text: str) -> dict[str, str]:
        """Return the options of RUN --mount; a target is absolute."""
        found = mounts.parse(text, self._expand)
        if found.get("target"):
            found["target"] = self._absolute(found["target"])
            if found["target"] == "/":
                raise ImageError("RUN --mount: invalid mount target '/'")
        return found


def checked_name(name: str) -> str:
    """Return the name of a here-document that becomes a file. Raises ImageError."""
    if "/" in name or name in (".", ".."):
        raise ImageError(f"a here-document called {name!r}: no name of a file")
    return name


def _count(text: str) -> int:
    number = whole(text)
    if number is None:
        raise ImageError(f"invalid number of retries {text!r:.40}")
    return number


def _interval(name: str, text: str) -> int:
    found = nanoseconds(text)
    if found is None:
        raise ImageError(f"invalid duration {text!r:.40}", "as in 30s or 1m30s")
    if found and found < 10**6:
        raise ImageError(f'Interval "{name}" cannot be less than 1ms')
    return found
