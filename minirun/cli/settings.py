"""`minirun settings`: what counts for all runs of a user. Its file: minirun.common.preferences."""

from __future__ import annotations

from minirun.cli.flags import Flags
from minirun.cli.output import show
from minirun.common import preferences
from minirun.core.keeping.settings import Settings


class SettingsFlags(Flags):
    """Show what counts for all runs, or change it."""

    command = "settings"
    unset: bool


def main_settings(args: list[str], _: Settings) -> int:
    """List the settings, print one, or write one. Raises UsageError, PreferencesError."""
    flags = SettingsFlags(args)
    if flags.unset:
        flags.takes(1)
        preferences.check(flags.args[0], preferences.KEYS.get(flags.args[0], ("",))[0])
        found = preferences.read()
        found.pop(flags.args[0], None)
        preferences.write(found)
        return 0
    flags.takes(0, 2)
    if len(flags.args) == 2:
        key, value = flags.args
        preferences.check(key, value)
        preferences.write(preferences.read() | {key: value})
        return 0
    found = preferences.read()
    if not flags.args:
        return show(f"{key}={found.get(key, one[0])}" for key, one in preferences.KEYS.items())
    key = flags.args[0]
    preferences.check(key, preferences.KEYS.get(key, ("",))[0])
    return show([found.get(key, preferences.KEYS[key][0])])
