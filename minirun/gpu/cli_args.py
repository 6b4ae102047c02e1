"""Reading the argument list of `nvidia-container-cli [global options] configure [options] ROOTFS`.

The options and their letters are the real program's (argp, so `--name=value`, `--name value` and
`-nvalue` are all allowed). Written by hand: argparse would cost more than all of stage 5.
"""

from minirun.errors import UsageError
from minirun.gpu.catalog import CAPABILITIES
from minirun.gpu.request import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_TEXT = {
    "--debug": "debug", "--user": "user", "--root": "root", "--ldcache": "ldcache",
    "--pid": "pid", "--ldconfig": "ldconfig", "--mig-config": "mig_config",
    "--mig-monitor": "mig_monitor", "--cuda-compat-mode": "cuda_compat_mode",
}  # fmt: skip
_LISTS = {
    "--device": "devices", "--imex-channel": "imex_channels", "--require": "requirements",
}  # fmt: skip
_SWITCHES = {
    "--load-kmods": "load_kmods", "--no-pivot": "no_pivot", "--no-cgroups": "no_cgroups",
    "--no-create-imex-channels": "no_create_imex_channels", "--no-devbind": "no_devbind",
    "--no-persistenced": "no_persistenced", "--no-fabricmanager": "no_fabricmanager",
    "--no-gsp-firmware": "no_gsp_firmware", "--no-cntlibs": "no_cntlibs",
}  # fmt: skip
_GLOBAL = (
    "--debug", "--load-kmods", "--no-pivot", "--user", "--root", "--ldcache",
    "--no-create-imex-channels",
)  # fmt: skip
_GLOBAL_LETTERS = {
    "-d": "--debug", "-k": "--load-kmods", "-n": "--no-pivot", "-u": "--user", "-r": "--root",
    "-l": "--ldcache",
}  # fmt: skip
_LETTERS = {
    "-p": "--pid", "-d": "--device", "-r": "--require", "-l": "--ldconfig", "-c": "--compute",
    "-u": "--utility", "-v": "--video", "-g": "--graphics", "-D": "--display", "-n": "--ngx",
}  # fmt: skip
_HINT = "as in: --load-kmods configure --device=0,1 --compute --utility --pid=42 ROOTFS"


def parse(argv: "list[str]") -> Request:
    """Return the request that an argument list (without the program's name) makes.

    Raises UsageError.
    """
    values: "dict[str, Any]" = dict.fromkeys(("capabilities", *_LISTS.values()), ())
    command, rootfs = "", ""
    words = iter(argv)
    for word in words:
        if not word.startswith("-") or word == "-":
            if not command:
                command = word
            elif not rootfs:
                rootfs = word
            else:
                raise UsageError(f"nvidia-container-cli: too many arguments: {word}", _HINT)
            continue
        name, value = _split(word, _GLOBAL_LETTERS if not command else _LETTERS)
        if (name in _GLOBAL) == bool(command):
            raise UsageError(f"nvidia-container-cli: unrecognized option {word}", _HINT)
        _take(values, name, value, words)
    if command != "configure" or not rootfs:
        missing = "root filesystem" if command == "configure" else "configure"
        raise UsageError(f"nvidia-container-cli: {missing} is missing", _HINT)
    values["capabilities"] = tuple(c for c in CAPABILITIES if c in values["capabilities"])
    values["pid"] = _pid(values.get("pid", "0"))
    return Request(rootfs=rootfs, **values)


def _split(word: str, letters: "dict[str, str]") -> "tuple[str, str | None]":
    """Return (long name, value or None) of an option."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None
    return letters.get(word[:2], word), word[2:] or None


def _take(values: "dict[str, Any]", name: str, value: "str | None", words: "Iterator[str]") -> None:
    """Put one option into `values`, with its value out of `words` where it needs one."""
    if name in _SWITCHES or name[2:] in CAPABILITIES:
        if value is not None:
            raise UsageError(f"nvidia-container-cli: option {name} takes no value", _HINT)
        if name in _SWITCHES:
            values[_SWITCHES[name]] = True
        else:
            values["capabilities"] += (name[2:],)
        return
    if name not in _TEXT and name not in _LISTS:
        raise UsageError(f"nvidia-container-cli: unrecognized option {name}", _HINT)
    if value is None:
        value = next(words, None)
    if value is None:
        raise UsageError(f"nvidia-container-cli: option {name} needs a value", _HINT)
    if name == "--require":
        values["requirements"] += (value,)
    elif name in _LISTS:
        values[_LISTS[name]] += tuple(item for item in value.split(",") if item)
    else:
        values[_TEXT[name]] = value


def _pid(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 10:
        raise UsageError(f"nvidia-container-cli: --pid={text} is no process id", _HINT)
    return int(text)
