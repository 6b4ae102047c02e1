"""Every file and folder that minirun keeps, and the module that writes it.

    /var/lib/minirun/             the store: --store, $MINIRUN_STORE
        images/NAME/              an image: image.json, layers/0, layers/1 …   image/catalogue
        drivers/                  files of SIMULATED drivers, simulated.json   gpu/simulated
        roots/CRC32-NAME          a link to each state root in use             engines/roots
        containers/               the state root of `minirun run`

    ROOT/                         a state root: --root, $MINIRUN_ROOT; an engine has one of its own
        .new/PID-TIME/            a container's directory without its name     core/directories
        .history/TIME.N.ID.jsonl  the log of a container that is gone          running/history
        .gpus/holders.json        which container has which GPU                gpu/share/sharing
        .mps/pipe/, .mps/log/     of NVIDIA's MPS daemon                       gpu/share/mps
        ID/                       a container

    ROOT/ID/                      0700; named once its record is in it         core/directories
        state.json                the record of what the container is          core/state
        .state.PID                the next state.json, while PID writes it     core/state
        config.json               the runtime-spec's, as it was at `create`    running/reserve
        events.jsonl              the log: each process writes its own events  core/events
        init.fifo, runtime.fifo   what init says, what the runtime answers     core/handshake
        exec.fifo                 init waits here until `start`                core/handshake
        gate.fifo                 a run waits here at the boundary of a stage  core/gates
        edits.json                what was put in for the GPUs                 core/stages/s5_inject
        rootfs/                   where the root filesystem is mounted         core/rootfs/build
        upper/, work/             OverlayFS's layer of this container          the kernel
        lower/0/, lower/1/ …      the image's layers, with mapped ids          core/rootfs/build
        log.json, log.json.1 …    what a detached container has written        running/logfile
        criu.pid                  the pid of an init that CRIU has restored    engines/criu/restore

rootfs, upper, work and lower are there only for `run IMAGE`: with a bundle the caller makes the
root filesystem. A bundle has a config.json too. engines/rootless says where a user without
privileges has store and root.
"""

STORE = "/var/lib/minirun"
ROOT = f"{STORE}/containers"

STATE, CONFIG, EVENTS, EDITS = "state.json", "config.json", "events.jsonl", "edits.json"
TO_RUNTIME, TO_INIT, EXEC, GATE = "init.fifo", "runtime.fifo", "exec.fifo", "gate.fifo"
ROOTFS, UPPER, WORK, LOWER = "rootfs", "upper", "work", "lower"
OUTPUT, CRIU_PID = "log.json", "criu.pid"
_NEXT_STATE = ".state."
_NAMES = frozenset(
    (
        STATE, CONFIG, EVENTS, EDITS, TO_RUNTIME, TO_INIT, EXEC, GATE, ROOTFS, UPPER, WORK, LOWER,
        CRIU_PID,
    )
)  # fmt: skip


def is_own_name(name: str) -> bool:
    """Return True if minirun gives this name to something in a container's directory."""
    return name in _NAMES or name.startswith((OUTPUT, _NEXT_STATE))


# --- the store ---------------------------------------------------------------------------------


def images(store: str) -> str:
    """Return the folder of the images."""
    return f"{store}/images"


def drivers(store: str) -> str:
    """Return the folder of the simulated drivers."""
    return f"{store}/drivers"


def roots(store: str) -> str:
    """Return the folder of the links to state roots."""
    return f"{store}/roots"


def default_root(store: str) -> str:
    """Return the state root of a store, which counts if no other is named."""
    return f"{store}/containers"


# --- a state root ------------------------------------------------------------------------------

NEW, HISTORY, GPU_HOLDERS, MPS = ".new", ".history", ".gpus", ".mps"


def new(root: str) -> str:
    """Return the folder of the containers' directories that have no name."""
    return f"{root}/{NEW}"


def history(root: str) -> str:
    """Return the folder of the logs of containers that are gone."""
    return f"{root}/{HISTORY}"


def gpu_holders(root: str) -> str:
    """Return the folder of the table of which container has which GPU."""
    return f"{root}/{GPU_HOLDERS}"


def mps(root: str) -> str:
    """Return the folder of NVIDIA's MPS daemon."""
    return f"{root}/{MPS}"


def container(root: str, container_id: str) -> str:
    """Return the directory of a container."""
    return f"{root}/{container_id}"


# --- a container's directory -------------------------------------------------------------------


def state_json(directory: str) -> str:
    """Return the path of the container's record."""
    return f"{directory}/{STATE}"


def next_state_json(directory: str, pid: int) -> str:
    """Return the path at which process `pid` writes a record before it renames it."""
    return f"{directory}/{_NEXT_STATE}{pid}"


def config_json(directory: str) -> str:
    """Return the path of config.json in a container's directory, or in a bundle."""
    return f"{directory}/{CONFIG}"


def events_jsonl(directory: str) -> str:
    """Return the path of the container's log."""
    return f"{directory}/{EVENTS}"


def edits_json(directory: str) -> str:
    """Return the path of what was put in for the GPUs."""
    return f"{directory}/{EDITS}"


def exec_fifo(directory: str) -> str:
    """Return the path of the FIFO that init waits at until `start`."""
    return f"{directory}/{EXEC}"


def gate_fifo(directory: str) -> str:
    """Return the path of the FIFO that a run waits at which is stopped between stages."""
    return f"{directory}/{GATE}"


def upper(directory: str) -> str:
    """Return the folder of what the container has written: OverlayFS's upperdir."""
    return f"{directory}/{UPPER}"


def lower(directory: str, number: int) -> str:
    """Return the folder at which an image's layer is mounted with mapped ids, from 0 on."""
    return f"{directory}/{LOWER}/{number}"
