"""Every file and folder that minirun keeps, and the module that writes it.

    /var/lib/minirun/             the store: --store, $MINIRUN_STORE
        images/NAME/              an image: image.json, perhaps layers/0 …  rootfs_tools/catalogue
        layers/HEX/fs/, blobs/    layers that images share, their archives  rootfs_tools/layers
        networks/NAME/            a network: network.json, leases/ID        net/network, leases
        volumes/NAME/             a volume: volume.json, _data/             running/volumes
        networks/.forwarding      what was set before the host forwarded    net/forwarding
        networks/.docker-user     rules stand in docker's DOCKER-USER       net/docker_user
        networks/.firewalld       what was added to firewalld's zone        net/firewalld
        builds/                   the cache of `build`                      rootfs_tools/dockerfile
        drivers/                  files of SIMULATED drivers                gpu/simulated
        roots/CRC32-NAME          a link to each state root in use          engines/roots
        containers/               the state root of `minirun run`

    ROOT/                         a state root: --root, $MINIRUN_ROOT; an engine has one of its own
        .new/PID-TIME/            a container's directory without its name  core/keeping/directories
        .history/TIME.N.ID.jsonl  the log of a container that is gone       running/kept_logs
        .names/NAME               a link to ../ID                           common/naming
        .gpus/holders.json        which container has which GPU             gpu/share
        .mps/pipe/, .mps/log/     of NVIDIA's MPS daemon                    toolkit/mps
        .labs/NAME/               a broken container, to be mended          faces/teach/lab/folder
        .levels                   what of one's own ladder held             faces/teach/levels/held
        ID/                       a container

    ROOT/ID/                      0700; named once its record is in it      core/keeping/directories
        state.json, .state.PID    the record of what it is; the next one    core/keeping/state
        config.json               the runtime-spec's, as at `create`        running/reserve
        events.jsonl              the log: each process writes its own      core/events
        init.fifo, runtime.fifo   what init says, what the runtime answers  core/handshake
        exec.fifo                 init waits here until `start`             core/handshake
        join.sock                 init answers `exec` here until `start`    oci/exec/created
        notify/notify.sock        the command says here that it is ready    running/notify
        health.json, health.pid   what its health checks find, one of them  docker/health
        attach.sock               `attach` comes here                       docker/attached
        halted                    its supervisor is to start it no more     running/ends
        gate.fifo                 a run waits here between two stages       core/gates
        seccomp.json              the compiled filter of system calls       oci/seccomp
        edits.json                what was put in for the GPUs              core/stages/s5_inject
        rootfs/                   where the root filesystem is mounted      core/rootfs/build
        upper/, work/             OverlayFS's layer of this container       the kernel
        lower/0/, lower/1/ …      the image's layers, with mapped ids       core/rootfs/build
        network/hosts …           with hostname, resolv.conf: bound there   net/names
        volumes/0/ …              what it has in an image's volumes         running/reserve
        shm/                      its /dev/shm, if others may join it       running/shared_memory
        log.json, log.json.1 …    what the command wrote to its streams     running/output_files
        name                      its name, if that is not its id           common/naming
        criu.pid                  the pid of an init that CRIU restored     toolkit/criu/restore

Only `run IMAGE` has rootfs, upper, work, lower, volumes. Without privileges: engines/rootless.
"""

# A name that one module alone needs stands there.

# The store. A folder's name stands here; its path is f"{store}/{places.IMAGES}", and so on.
STORE = "/var/lib/minirun"
IMAGES, DRIVERS, ROOTS, CONTAINERS = "images", "drivers", "roots", "containers"

# A state root: a container's directory is f"{root}/{id}".
ROOT = f"{STORE}/{CONTAINERS}"
NEW, HISTORY, NAMES = ".new", ".history", ".names"

# A container's directory, and a bundle, which has a config.json too.
STATE, NEXT_STATE, CONFIG = "state.json", ".state.", "config.json"
EVENTS, EDITS, SECCOMP = "events.jsonl", "edits.json", "seccomp.json"
FROM_INIT, FROM_RUNTIME, EXEC, GATE = "init.fifo", "runtime.fifo", "exec.fifo", "gate.fifo"
ROOTFS, UPPER, WORK, LOWER, VOLUMES = "rootfs", "upper", "work", "lower", "volumes"
OUTPUT, CRIU_PID, JOIN, NOTIFY = "log.json", "criu.pid", "join.sock", "notify"
NETWORK_FILES, HALTED, ATTACH, NAME, SHM = "network", "halted", "attach.sock", "name", "shm"
HEALTH, HEALTH_PID = "health.json", "health.pid"
_NAMES = frozenset(
    (
        STATE, CONFIG, EVENTS, EDITS, FROM_INIT, FROM_RUNTIME, EXEC, GATE, JOIN, ROOTFS, UPPER,
        WORK, LOWER, VOLUMES, CRIU_PID, SECCOMP, NOTIFY, NETWORK_FILES, HALTED, ATTACH, NAME, SHM,
    )
)  # fmt: skip


def is_own_name(name: str) -> bool:
    """Return True if minirun gives this name to something in a container's directory."""
    return name in _NAMES or name.startswith((OUTPUT, NEXT_STATE, HEALTH, HEALTH_PID))
