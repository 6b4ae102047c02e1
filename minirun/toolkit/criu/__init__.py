"""Checkpoint and restore: a container's processes as files, by CRIU (criu.org).

CRIU, a program of its own, stops a tree of processes, writes all that they are to files (memory,
registers, open files, mounts, namespaces), and can make the same processes of them again. What lies
outside of the container it cannot save, and has to be told of, at both ends:

    streams.py   what the command has as standard input, output and error
    mounts.py    what config.json binds into it
    outside.py   the namespaces that it names by path
    refuse.py    what CRIU cannot do, or not from here
    program.py   finding CRIU, running it, and what its log says if it fails
    dump.py      `minirun checkpoint`
    restore.py   `minirun restore`

What runc does: the same, but it talks to `criu swrk` in protocol buffers, while this is CRIU's
command line. So what only the protocol can do is refused: a terminal's master end is handed back
only there. Imported by the two commands alone.
"""
