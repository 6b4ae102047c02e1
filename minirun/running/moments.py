"""Points in time: the time stamps that minirun writes, and what --since and --until say."""

from __future__ import annotations

import re
import time
from datetime import datetime

from minirun.common.quantities import decimal, nanoseconds
from minirun.core.errors import UsageError

_DATE = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:T(\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?)?(Z|[+-]\d\d:\d\d)?",
    re.ASCII,
)
_LONG = (
    (2 * 24, 1, "hours"), (2 * 7 * 24, 24, "days"), (2 * 30 * 24, 7 * 24, "weeks"),
    (2 * 365 * 24, 30 * 24, "months"),
)  # fmt: skip
"""Hours below which a unit is used, and how many of them it has: docker's HumanDuration."""


def moment(stamp: str) -> float:
    """Return the seconds since the epoch of a time stamp in UTC, as minirun writes them.

    Raises ValueError if it is none.
    """
    seconds = datetime.fromisoformat(f"{stamp[:19]}+00:00").timestamp()
    return seconds + (decimal(f"0.{stamp[20:].rstrip('Z')}") or 0)


def point(text: str, flag: str, status: int = 1) -> float:
    """Return the seconds since the epoch that --since or --until means, as docker reads it.

    RFC 3339 (2026-01-02T03:04:05Z, 2026-01-02: this machine's zone without one), seconds since
    the epoch (1767323045.5), or how long ago (10m, 1h30m). Raises UsageError.
    """
    if re.fullmatch(r"-?\d{1,12}(?:\.\d{1,9})?", text, re.ASCII):
        return float(text)
    if (length := nanoseconds(text)) is not None:
        return time.time() - length / 1e9
    if found := _DATE.fullmatch(text):
        day, hour, minute, second, digits, zone = found.groups()
        try:
            at = datetime.fromisoformat(
                f"{day}T{hour or '00'}:{minute or '00'}:{second or '00'}{zone or ''}"
            )
            return at.timestamp() + float(f"0.{digits or 0}")
        except (ValueError, OverflowError):
            pass  # the 31st of February
    hint = "2026-01-02T03:04:05Z, seconds since 1970, or how long ago: 10m, 1h30m"
    raise UsageError(f"invalid {flag} {text!r}", hint, status)


def age(seconds: float) -> str:
    """Return how long a time is in docker's words: 5 seconds, About a minute, 3 hours, 4 days."""
    whole = int(max(0.0, seconds))
    minutes, hours = whole // 60, int(seconds / 3600 + 0.5)
    if whole < 1:
        return "Less than a second"
    if whole == 1:
        return "1 second"
    if whole < 60:
        return f"{whole} seconds"
    if minutes == 1:
        return "About a minute"
    if minutes < 60:
        return f"{minutes} minutes"
    if hours == 1:
        return "About an hour"
    for limit, size, unit in _LONG:
        if hours < limit:
            return f"{hours // size} {unit}"
    return f"{hours // (24 * 365)} years"


def shown(stamp: str) -> str:
    """Return a time stamp of ours as docker's lists have it: 2026-01-02 03:04:05 +0000 UTC."""
    return f"{datetime.fromisoformat(stamp[:19]).isoformat(' ')} +0000 UTC"
