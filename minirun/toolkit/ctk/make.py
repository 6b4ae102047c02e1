"""Makes a CDI spec of this host's GPUs, logs it as nvidia-ctk does, and writes it.

As a file it is JSON in one line or YAML with sorted keys, as the reference library has it. A spec
that is no valid one is not written.
"""

from __future__ import annotations

import os

from minirun.common.schema import SchemaError
from minirun.core.errors import GPUError
from minirun.core.keeping import jsonlite
from minirun.core.lazy import lazy
from minirun.gpu import driverroot
from minirun.gpu.cdi.check import check
from minirun.gpu.nvidia.shared import lookup
from minirun.gpu.nvidia.shared.find import Finder
from minirun.gpu.nvidia.shared.log import ToolkitLog
from minirun.gpu.nvidia.specs import modes, recipe
from minirun.toolkit.ctk import host

with lazy:
    import yaml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FORMATS = ("json", "yaml")
_EMPTY = 'failed add device "{}": invalid device, empty device edits'


def spec(
    mode: str,
    how: recipe.CdiRecipe,
    finder: Finder,
    log: ToolkitLog,
    store: str,
    *,
    own_program: bool,
) -> dict[str, Any]:
    """Return the spec. `mode` is out of modes.MODES.

    With `own_program` the spec of a simulated driver has minirun's hooks, which are one more than
    those of NVIDIA's program. Raises MinirunError, OSError.
    """
    _announce(finder, log)
    try:
        is_wsl = mode == "auto" and driverroot.is_wsl()
        needs_host = mode in ("auto", "nvml", "management") and not is_wsl
        found = host.host_inventory(finder, store) if needs_host else None
        if found and found.simulated:
            log.warning("SIMULATED: no driver is behind the devices of this spec (MINIRUN_SIM)")
            finder.enter(found.root)
            if own_program:
                how = how._replace(program=recipe.own_program())
        document = modes.spec(mode, found, how, finder)
    except GPUError as error:
        raise _in_place(error) from None
    log.info(f"Generated CDI spec with version {document['cdiVersion']}")
    return document


def _in_place(error: GPUError) -> GPUError:
    """Say, as the real tool does, in which part of its work an error came."""
    text = str(error)
    parts = {
        "failed to construct": "failed to create device CDI specs: ",
        "failed to locate libcuda": "failed to create edits common for entities: ",
    }
    part = next((words for begin, words in parts.items() if text.startswith(begin)), "")
    return GPUError(f"failed to generate CDI spec: {part}{text}", error.hint, status=1)


def program(asked: str) -> recipe.HookProgram:
    """Return the program of the hooks: the one that is asked for, nvidia-cdi-hook, or minirun."""
    name = asked or "nvidia-cdi-hook"
    path = name if name.startswith("/") else lookup.program(name)
    if not path and asked:
        path = f"/usr/bin/{name}"
    if not path:
        return recipe.own_program()
    last = path.rpartition("/")[2]
    if last == "nvidia-ctk":
        return recipe.HookProgram(path, (last, "hook"))
    return recipe.HookProgram(path, (last, recipe.HOOK) if last == "minirun" else (last,))


def _announce(finder: Finder, log: ToolkitLog) -> None:
    """Say which of NVIDIA's libraries tell about GPUs."""
    other = "libnvidia-sandboxutils.so.1"
    if not finder.locate_library(other):
        twice = "\n".join([f"{other}: not found"] * 2)
        log.warning(f"Ignoring error in locating {other}: {twice}")
        log.warning("Failed to init nvsandboxutils: ERROR_LIBRARY_LOAD; ignoring")
    for path in finder.locate_library("libnvidia-ml.so.1")[:1]:
        log.info(f"Using {finder.root}{path}")


def format_of(path: str) -> str:
    """Return the format that a file's name tells; "" for none."""
    ending = path.rpartition(".")[2].lower()
    return {"json": "json", "yaml": "yaml", "yml": "yaml"}.get(ending, "")


def text(spec: dict[str, Any], form: str) -> str:
    """Return a spec as text. Raises GPUError where it is not valid."""
    for device in spec["devices"]:
        if not any(device["containerEdits"].values()):
            _refuse(_EMPTY.format(device["name"]))
    try:
        check(spec)
    except SchemaError as error:
        _refuse(str(error))
    if form == "json":
        return jsonlite.dumps(spec)
    dumped: str = yaml.safe_dump(spec, default_flow_style=False, width=1 << 20)
    return f"---\n{dumped}"


def _refuse(what: str) -> None:
    raise GPUError(f"failed to write spec: invalid CDI Spec: {what}", status=1)


def save(path: str, content: str, mode: int = 0o644) -> None:
    """Write a file in one step; its folder is made where missing. Raises OSError."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    temporary = f"{folder}/.{os.path.basename(path)}.{os.getpid()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content.encode())
            os.fchmod(fd, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
