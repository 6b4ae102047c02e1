"""A signal that ends this program lets it clean up first: it is raised as an error.

SIGTERM, SIGHUP and SIGQUIT end a command as ^C does, by KeyboardInterrupt: whatever a command has
begun, its `finally` removes. A container's start has its own way: minirun.running.signals.
"""

from __future__ import annotations

import sys

from minirun.core.kernel import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ENDING = (1, 2, 3, 15)
"""SIGHUP, INT, QUIT, TERM."""
_SIGINT, _SIGALRM = 2, 14


def end_by_signals() -> None:
    """Let these signals raise KeyboardInterrupt(number), except those that nohup(1) ignores."""
    raise_again(KeyboardInterrupt)
    for number in ENDING:
        if number != _SIGINT and signals.getsignal(number) == signals.SIG_DFL:
            signals.signal(number, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    for each in ENDING:
        if each != _SIGINT:  # a second ^C breaks off the cleaning up
            signals.signal(each, ignore)
    raise KeyboardInterrupt(number)


def number_of(error: BaseException) -> int:
    """Return the number of the signal that an error stands for; 0 if it stands for none.

    Before Python 3.12 an error out of __set_name__, so in the import of a module that has a class,
    becomes a RuntimeError whose cause it is.
    """
    cause: BaseException | None = error
    while cause and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__
    if not cause:
        return 0
    return int(cause.args[0]) if cause.args else _SIGINT


def ignore(number: int, frame: object) -> None:
    """Do nothing. SIG_IGN would make the interpreter complain of a signal that waits."""


def raise_again(kind: type[BaseException]) -> None:
    """Raise an error of this kind again, a millisecond later, if Python has dropped it.

    Python does so in a weak reference's callback, such as the import system's, and in __del__.
    """

    def hook(lost: sys.UnraisableHookArgs) -> None:
        error = lost.exc_value
        if not isinstance(error, kind):
            sys.__unraisablehook__(lost)
            return

        def later(number: int, frame: object) -> None:
            raise error

        handle((_SIGALRM,), later)
        signals.setitimer(signals.ITIMER_REAL, 0.001)

    sys.unraisablehook = hook


def handle(numbers: tuple[int, ...], handler: Callable[[int, object], None]) -> None:
    """Let `handler` have these signals from now on, whatever the caller has blocked or ignored."""
    for number in numbers:
        signals.signal(number, handler)
    signals.pthread_sigmask(signals.SIG_UNBLOCK, numbers)
