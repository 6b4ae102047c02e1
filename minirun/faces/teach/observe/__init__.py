"""What another runtime does when it starts a container, as the events of minirun's own log.

    trace               runs a command under strace
    process_tree        the processes: which made which, and what they executed
    observed_messages   what they said to each other: pipes, socket pairs, FIFOs
    roles               which of them is the runtime, init, a hook, nvidia-container-cli …
    rules               the one table: what begins each stage, and why that is its begin
    failure             the call by which a start failed
    inference           the events, in the form of minirun's own log
    daemon              which processes to follow if an engine's daemon does the work

runc says nothing of stages. They are inferred from what its processes do, by the rules of that one
table; what cannot be inferred is left out, or called so. The check is minirun itself: what is
inferred of its own start has to be what its log says.
"""
