"""What another runtime does when it starts a container, told as minirun tells its own start.

    trace.py     runs a command under strace
    family.py    the processes: which made which, and what they executed
    talk.py      what they said to each other: pipes, socket pairs, FIFOs
    cast.py      who is who: runtime, init, hooks, nvidia-container-cli …
    rules.py     the one table: what begins each stage, and why that is its begin
    failure.py   the call by which a start failed
    story.py     the events, in the form of minirun's own log
    daemon.py    whom to follow if an engine's daemon does the work

runc says nothing of stages. They are inferred from what its processes do, by the rules of that one
table; what cannot be inferred is left out, or called so. The check is minirun itself: what is
inferred of its own start has to be what its log says.
"""
