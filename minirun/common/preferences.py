"""What a user has said once for all runs: `minirun settings` writes it, and it is read here alone.

    $XDG_CONFIG_HOME/minirun/settings, else ~/.config/minirun/settings

A line for each: `progress=none`; # begins a comment. A flag of the command line goes before it. It
is read when something would be shown, so that an engine, and a run whose output goes to a file, do
not depend on it.

Root's is root's own: a file that another user may write is not read.
"""

from __future__ import annotations

import os
import stat

from minirun.core.errors import MinirunError, from_os
from minirun.core.keeping import state
from minirun.core.keeping.visible import warn

_LARGEST = 1 << 16
"""Bytes."""
KEYS = {"progress": ("auto", "lanes", "plain", "tty", "none", "quiet")}
"""Setting → its values; the first is what counts without the file."""


class PreferencesError(MinirunError):
    """The file cannot be read, or says what no setting is."""

    status = 1


def path() -> str:
    """Return where the file is, or would be; empty if the user has no home."""
    home = os.environ.get("HOME", "")
    folder = os.environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home[:1] == "/" else "")
    return f"{folder}/minirun/settings" if folder[:1] == "/" else ""


def read() -> dict[str, str]:
    """Return what is set. Raises PreferencesError, which names the file and the line."""
    where, found = path(), {}
    for number, line in enumerate(_text(where).splitlines(), 1):
        key, equals, value = (part.strip() for part in line.partition("#")[0].partition("="))
        if not (key or equals):
            continue
        if not equals or key not in KEYS:
            text = f"{where}: line {number}: no setting {key[:40]!r}"
            raise PreferencesError(text, f"one of {', '.join(KEYS)}: progress=none")
        check(key, value, f"{where}: line {number}: ")
        found[key] = value
    return found


def chosen(key: str) -> str:
    """Return a setting's value; of a file that cannot be read a line says so, and none counts."""
    try:
        return read().get(key, KEYS[key][0])
    except PreferencesError as error:
        warn(f"{error.line()}: it is passed over")
        return KEYS[key][0]


def check(key: str, value: str, where: str = "") -> None:
    """Raise PreferencesError for a key or a value that there is not."""
    if key not in KEYS:
        raise PreferencesError(f"{where}no setting {key[:40]!r}", f"one of {', '.join(KEYS)}")
    if value not in KEYS[key]:
        text = f"{where}invalid value {value[:40]!r} of {key}"
        raise PreferencesError(text, f"one of {', '.join(KEYS[key])}")


def write(found: dict[str, str]) -> None:
    """Write the file anew; without a setting it goes. Raises PreferencesError."""
    where = path()
    if not where:
        raise PreferencesError("there is no folder for settings", "set $HOME or $XDG_CONFIG_HOME")
    try:
        if not found:
            os.unlink(where)
            return
        os.makedirs(os.path.dirname(where), mode=0o700, exist_ok=True)
        text = "".join(f"{key}={value}\n" for key, value in sorted(found.items()))
        state.replace(where, text, f"{where}.{os.getpid()}")
    except FileNotFoundError:
        return
    except OSError as error:
        raise PreferencesError(from_os(error, where).line()) from None


def _text(where: str) -> str:
    """Return what is in the file, "" if there is none. Raises PreferencesError."""
    try:
        fd = os.open(where, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise PreferencesError(from_os(error, where).line()) from None
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_size > _LARGEST:
            raise PreferencesError(f"{where}: it is no ordinary file, or too large", f"rm {where}")
        if info.st_uid not in (0, os.geteuid()) or info.st_mode & 0o022:
            text = f"{where}: another user may write to it"
            raise PreferencesError(text, f"chmod go-w, and chown: {where}")
        return os.read(fd, _LARGEST).decode()
    except UnicodeDecodeError:
        raise PreferencesError(f"{where}: it is not UTF-8", f"rm {where}") from None
    finally:
        os.close(fd)
