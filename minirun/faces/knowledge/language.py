"""Which language minirun speaks to its user: --lang, or the locale of the environment."""

import os
from collections.abc import Mapping

from minirun.core.errors import UsageError
from minirun.core.keeping.settings import LANGUAGES
from minirun.faces.knowledge.texts import ENGLISH


def choose(asked: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the language that was asked for (--lang); if it is empty, the environment's.

    As with gettext (its manual, "Locale Environment Variables"): LC_ALL, LC_MESSAGES and LANG, of
    which the first that is set counts. If that is not C, the list in LANGUAGE comes before it.
    English if minirun does not speak any of them. Raises UsageError for an unknown `asked`.
    """
    if asked:
        if asked not in LANGUAGES:
            raise UsageError(f"unknown language {asked!r}", " or ".join(LANGUAGES))
        return asked
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    locale = next(filter(None, (environment.get(name) for name in names)), "C")
    wanted = [locale]
    if _language(locale) not in ("C", "POSIX"):
        wanted = [*environment.get("LANGUAGE", "").split(":"), locale]
    return next((word for word in map(_language, wanted) if word in LANGUAGES), ENGLISH)


def _language(locale: str) -> str:
    """Return ko for ko_KR.UTF-8@modifier."""
    for sign in "@._":
        locale = locale.partition(sign)[0]
    return locale
