"""Rows as sentences, for a screen reader: in order, uncut, nothing drawn.

    Stage 2, init: asks, through a named FIFO, for the prestart hooks to be run; waits.
    At 6.14 milliseconds, init says RUN_HOOKS to runtime: please run the prestart hooks.
    At 6.16 milliseconds, stage 2 done: 1 message, in 26 microseconds.

Signs that are names stay as they are: a flag, a path and an argument can be looked up.
"""

from minirun.faces.show.log.event_row import Row, clean

_UNITS = (("ms", " milliseconds"), ("µs", " microseconds"), ("s", " seconds"))
_VERBS = {
    "syscall": "calls",
    "netlink": "asks the kernel for",
    "exec": "calls",
    "message": "says",
    "gate": "waits at",
}


def sentence(row: Row, unicode: bool = True) -> str:
    """Return a row as one sentence, or two: what happened, and why."""
    if row.kind in ("begin", "stage"):
        text = f"Stage {row.stage}, {row.actor}: {row.what}"
        text += f", in {_spoken(row.took)}" if row.took else ""
    elif row.kind == "end":
        text = f"At {_spoken(row.time)}, stage {row.stage} {row.what}"
        text += f", in {_spoken(row.took)}" if row.took else ""
    else:
        text = f"At {_spoken(row.time)}, {row.actor} {_did(row)}"
    reason = row.why if row.kind not in ("begin", "end", "stage") else ""
    return clean(f"{text}: {reason}." if reason else f"{text}.", unicode)


def _did(row: Row) -> str:
    did = f"{_VERBS.get(row.kind, 'notes')} {row.what.removeprefix('gate ')}"
    if row.result.startswith("= "):
        did += f", which returns {row.result[2:]}"
    elif row.result not in ("", "ok"):
        did += f", which fails with {row.result}"
    return did + (f", after {_spoken(row.took)}" if row.took else "")


def _spoken(duration: str) -> str:
    """2.02 milliseconds for 2.02ms."""
    for unit, word in _UNITS:
        if duration.endswith(unit):
            return duration.removesuffix(unit) + word
    return duration
