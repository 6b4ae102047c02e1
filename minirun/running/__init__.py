"""Ring 2: what accompanies a container while it runs: streams, signals, log, clean-up.

reserve         a container's directory and first record
bundle          a container of a bundle, and runc's `run`
supervise       `run`: from the start to the end; background: with -d
joined          another container, whose namespaces a new one joins
shared_memory   /dev/shm of a container that others may join
control         start, kill, delete, pause, resume: the work of runc's verbs and docker's
ends            the end of a container that may start again
handover        pid file, console socket and more that an engine hands over
signals         signals go to the command
pipes           standard input and output
output          what the command writes is kept; output_files: in which files
notify          $NOTIFY_SOCKET: the command says that it is ready, and systemd is told
lookup          a container by its name; listing: all of a state root
moments         time stamps, and what --since says
processes       the processes of a container, for `ps ID`
shelves         what the shelves beside the runtime do in a run
kept_logs       logs of containers that are gone
volumes         directories that outlive containers
store_use       what containers need of the store
gc              what killed commands left behind
force_delete    `delete --force` without a readable record
visible_json    JSON for a terminal
"""

from binascii import crc32

from minirun.core.keeping import places


def own_cgroup(root: str, container_id: str, *, systemd: bool) -> str:
    """Return the cgroup of a container whose config.json names none.

    An id is unique below one state root; below another one a cgroup has that root's mark.
    """
    mark = "" if root == places.ROOT else f".{crc32(root.encode()):08x}"
    return f"{':minirun:' if systemd else '/minirun/'}{container_id}{mark}"
