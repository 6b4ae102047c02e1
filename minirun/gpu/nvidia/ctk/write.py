"""A CDI spec as a file: JSON in one line or YAML with sorted keys, as the reference library has it.

A spec that is no valid one is not written.
"""

import os

from minirun.common.schema import SchemaError
from minirun.core import jsonlite
from minirun.core.errors import GPUError
from minirun.gpu.cdi.check import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FORMATS = ("json", "yaml")
_EMPTY = 'failed add device "{}": invalid device, empty device edits'


def format_of(path: str) -> str:
    """Return the format that a file's name tells; "" for none."""
    ending = path.rpartition(".")[2].lower()
    return {"json": "json", "yaml": "yaml", "yml": "yaml"}.get(ending, "")


def text(spec: "dict[str, Any]", form: str) -> str:
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
    import yaml

    dumped: str = yaml.safe_dump(spec, default_flow_style=False, width=1 << 20)
    return f"---\n{dumped}"


def _refuse(what: str) -> None:
    raise GPUError(f"failed to write spec: invalid CDI Spec: {what}", status=1)


def save(path: str, content: str) -> None:
    """Write the file in one step, for everybody to read. Raises OSError."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    temporary = f"{folder}/.{os.path.basename(path)}.{os.getpid()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content.encode())
            os.fchmod(fd, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
