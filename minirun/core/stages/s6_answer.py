"""Stage 6: the runtime answers through the FIFO: the hooks are done."""

from minirun.core import events
from minirun.core.handshake import Channel, Message


def runtime(channel: Channel) -> None:
    """Tell init that the hooks are done, and hand over the turn. Raises PeerDied."""
    with events.stage(6, "runtime", "answer: hooks done", why="init has waited since stage 2"):
        channel.say(Message.HOOKS_DONE, why="every prestart hook ended with status 0")
    channel.say(Message.YOUR_TURN)


def init(channel: Channel) -> None:
    """Wait until the runtime says that the hooks are done. Raises PeerDied, MinirunError."""
    channel.expect(Message.HOOKS_DONE)
    channel.expect(Message.YOUR_TURN)
