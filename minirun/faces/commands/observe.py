"""`minirun observe`: what another runtime does at a container's start, in the seven stages."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress

from minirun.cli.flags import Flags, flag
from minirun.common import screen
from minirun.core.errors import MinirunError, UsageError, reason
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import say, warn
from minirun.faces import knowledge
from minirun.faces.knowledge import language
from minirun.faces.show.log import narrate, recording
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.recording import Recording
from minirun.faces.show.text import explained, played
from minirun.faces.teach.observe import daemon, inference, trace

_FAILED = re.compile(r"(\w+)\(.*\) = -1 (E[A-Z0-9]+)", re.DOTALL)
"""A call that failed, as strace writes it: its name, its error."""
_HOOKS = ("hook", "cli", "ldconfig")
"""Actors whose exit status is a hook's answer."""


class Observe(Flags):
    """A command that starts a container, seen through strace."""

    command, mixed = "observe", False
    output: str = flag("-o")
    engine: str
    address: str
    attach: str
    level: str = flag(default="stages")
    keep: str


def main(args: list[str], settings: Settings) -> int:
    """Run the command and show what was seen; return its exit status. Raises MinirunError."""
    flags = Observe(args)
    if not flags.args:
        raise UsageError("observe needs a command", "minirun observe -- runc run -b BUNDLE ID", 1)
    flags.check("level", *narrate.LEVELS)
    join = daemon.of_engine(flags.engine, flags.address) if flags.engine else ()
    join += daemon.of_container(flags.attach) if flags.attach else ()
    waiting = daemon.waiting(flags.args)
    watched, zero = trace.watch(flags.args, (*join, *waiting))
    if flags.keep:
        _write(flags.keep, watched.text)
    events = inference.infer(watched.text, zero, waiting)
    if not events:
        warn("no container was started: strace saw no runtime")
        return watched.status
    if os.geteuid() and (powerless := _setuid(events)):
        hint = "observe as root: sudo minirun observe -- setpriv --reuid USER …"
        warn(f"{powerless} has no privilege under a user's strace ({hint})")
    log = inference.lines(events)
    if flags.output:
        _write(flags.output, log)
    for found in recording.parse(log.encode()):
        _show(found, flags.level, settings)
    return watched.status


def _setuid(events: list[Event]) -> str:
    """Return a privileged program that was executed: execve(2), ptrace takes its privilege away."""
    executed = [str(event.args.get("path")) for event in events if event.kind == "exec"]
    for path in executed:
        with suppress(OSError):
            if os.stat(path).st_mode & stat.S_ISUID or os.getxattr(path, "security.capability"):
                return path.rpartition("/")[2]
    return ""


def _show(found: Recording, level: str, settings: Settings) -> None:
    """Show a start on standard error, which is not the container's output; and why it failed."""
    _print_error(f"\n{played.title(found)}\n")
    style = "summary" if level == "summary" else "lanes"
    played.draw(
        found, style, level, None, _print_error, lambda event: event.name != inference.FAILED_BY
    )
    hidden = [event.actor for event in found.events if event.name == inference.UNREADABLE]
    if hidden:
        warn(f"strace could not read what {' and '.join(hidden)} said: observe as root")
    failed = [event for event in found.events if event.name == inference.FAILED_BY]
    for event in failed:
        stage = f"stage {event.stage}, " if event.stage else ""
        call = str(event.args["call"])
        own = call.startswith("exit_group(") and event.actor not in _HOOKS
        hint = " (it decided by itself: no call that failed fits its words)" if own else ""
        say(f"{stage}{event.actor} (pid {event.pid}): {call}{hint}")
        _explain(call, event.args.get("report", ""), settings)


def _explain(call: str, report: str, settings: Settings) -> None:
    """Tell what is known of the runtime's own words; if nothing is, of the call's error."""
    tongue = language.choose(settings.lang)
    found = knowledge.error_text(report, tongue)[:1]
    failed = _FAILED.match(call)
    if failed and (not found or found[0].kind == knowledge.AROUND):
        about = knowledge.errno(failed[2], failed[1], tongue)
        found = [about] if about else found
    for topic in found:
        _print_error(
            "".join(f"{line}\n" for line in explained.page(topic, screen.width(2), tongue))
        )


def _print_error(text: str) -> None:
    os.write(2, text.encode(errors="replace"))


def _write(path: str, text: str) -> None:
    """Raises MinirunError."""
    try:
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
    except OSError as error:
        raise MinirunError(f"{path}: {reason(error)}", status=1) from None
