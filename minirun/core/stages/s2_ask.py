"""Stage 2: init asks the runtime, through the named FIFO, to run the prestart hooks; and waits.

It has to ask: a prestart hook runs in the host's namespaces, which init has left. The real runc
asks over a socketpair.
"""

from minirun.core import events
from minirun.core.handshake import Channel, Message


def init(channel: Channel) -> None:
    """Ask for the prestart hooks, and hand over the turn. Raises PeerDied, MinirunError."""
    with events.stage(2, "init", "ask for the prestart hooks", why="init cannot see the host"):
        channel.say(Message.RUN_HOOKS, why="please run the prestart hooks of config.json")
    channel.say(Message.YOUR_TURN)
