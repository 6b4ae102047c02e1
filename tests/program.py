"""The program that a test calls: as users call it, in a process of its own."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from layers import STORE
from minirun.core.keeping.places import CONTAINERS, EVENTS, HISTORY, NAME, NAMES, NEW, ROOTS
from minirun.engines import roots
from minirun.faces.inspect import past

KEPT = (HISTORY, NEW, NAMES, ".gpus")
"""What stays in a state root."""


class Program:
    """The installed command, with a state root of its own."""

    def __init__(
        self, path: str, root: Path | None = None, *flags: str, store: str | Path = STORE
    ) -> None:
        """`root`: a state root to name; None: it is the store's, as where a user names none."""
        self.path = path
        self.named = root
        self.flags = flags
        self.store = str(store)
        self._others: list[Program] = []

    @property
    def root(self) -> Path:
        return self.named or Path(self.store, CONTAINERS)

    def id(self, name: str) -> str:
        """The id of the container of this name; the name, if it is an id, or there is none."""
        with contextlib.suppress(OSError):
            found = os.path.basename(os.readlink(self.root / NAMES / name))
            if (self.root / found / NAME).read_text() == name:
                return found
        return name

    def directory(self, name: str) -> Path:
        """The directory of the container of this name, or id; it need not exist."""
        return self.root / self.id(name)

    def name(self, container_id: str) -> str:
        """The name of a container, or its id if it has no other."""
        with contextlib.suppress(OSError):
            return (self.root / container_id / NAME).read_text()
        return container_id

    def log(self, name: str, file: str = EVENTS) -> str:
        """The log, or another file, of a container as far as it is written; "" without one yet."""
        with contextlib.suppress(OSError):
            return (self.directory(name) / file).read_text()
        return ""

    def at(self, store: str | Path) -> Program:
        """The same with another store, for a part of a test; it is cleaned with this one."""
        self._others.append(Program(self.path, self.named, *self.flags, store=store))
        return self._others[-1]

    def argv(self, *args: str) -> list[str]:
        root = ["--root", str(self.named)] if self.named else []
        store = ["--store", self.store] if self.named or self.store != STORE else []
        return [self.path, *root, *store, *self.flags, *args]

    def environment(self) -> dict[str, str]:
        """The same in variables, for a program that calls minirun itself."""
        root = {"MINIRUN_ROOT": str(self.named)} if self.named else {}
        return root | {"MINIRUN_STORE": self.store} if self.named or self.store != STORE else root

    def __call__(
        self,
        *args: str,
        input: str | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 60,
        **options: object,
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end; stdout and stderr are text."""
        return subprocess.run(
            self.argv(*args), input=input, env=os.environ | (env or {}), timeout=timeout,
            capture_output=True, text=True, check=False, errors="replace", **options,
        )  # fmt: skip

    def start(self, *args: str, **options: object) -> subprocess.Popen[str]:
        """Start it and return at once."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(self.argv(*args), text=True, **pipes | options)

    def spec(self, *command: str) -> Any:
        """The config.json that `spec busybox` writes for a command, for a test to change.

        Each worker asks once: nothing of it depends on the state root.
        """
        return json.loads(_spec_of_busybox(self.path, self.flags, command))

    def events(self, container_id: str = "") -> list[dict[str, object]]:
        """The events of a container, living or gone; of the newest one by default."""
        living = sorted(self.root.glob(f"{self.id(container_id) or '*'}/{EVENTS}"))
        text = (living or self.logs(container_id))[-1].read_text()
        return [json.loads(line) for line in text.splitlines()]

    def logs(self, name: str = "") -> list[Path]:
        """The kept logs of the containers of this name, or id, that are gone; the newest last."""
        return [
            path for path in sorted(self.root.glob(f"{HISTORY}/*.jsonl"))
            if not name or path.name.endswith(f".{name}.jsonl")
            or past.origin(str(path)).get("name") == name
        ]  # fmt: skip

    def left(self) -> list[str]:
        """What lies in the state root, by name, except history, table of GPUs, and the empty NEW.

        A link of a name that leads to no container is left, too.
        """
        found = [self.name(path.name) for path in self.root.glob("*") if path.name not in KEPT]
        links = [path for path in self.root.glob(f"{NAMES}/*") if not path.exists()]
        return found + [str(path) for path in (*self.root.glob(f"{NEW}/*"), *links)]

    def clean(self) -> None:
        """Delete whatever a test left."""
        for other in self._others:
            other.clean()
        for path in self.root.glob("[!.]*"):
            self("delete", "--force", path.name)
        if self.left():
            self("gc")
        forget_root(self.root, self.store)


def forget_root(root: str | Path, store: str = STORE) -> None:
    """Take a state root out of the store's list of them: a test ends, and its root with it."""
    Path(roots.entry_of(store, str(root))).unlink(missing_ok=True)


def roots_of(store: str) -> Iterator[tuple[str, str]]:
    """Yield the links in a store's list of roots, and where each leads to."""
    for link in Path(store, ROOTS).glob("*"):
        with contextlib.suppress(OSError):  # another worker's test has ended
            yield str(link), os.readlink(link)


@functools.cache
def _spec_of_busybox(path: str, flags: tuple[str, ...], command: tuple[str, ...]) -> str:
    done = Program(path, None, *flags)("spec", "busybox", *command)
    assert done.returncode == 0, done.stderr
    return done.stdout
