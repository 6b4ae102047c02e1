"""System calls that make nodes, links and cgroups, and that decide which devices may be opened."""

from minirun.view.knowledge.topic import Topic

TOPICS = (
    Topic(
        "mknodat",
        "make a device node",
        "A node is only a name for a pair of numbers: c 1:3 is /dev/null wherever it lies. Having "
        "the node does not mean that it may be opened: that is the cgroup's decision.",
        advice="minirun inspect ID shows each node with what the cgroup allows of it.",
        man="mknod(2), null(4)",
        spec="config-linux.md, Default Devices; config-linux.md, Devices",
        real="runc does the same; in a user namespace, where mknod is refused, both bind the "
        "host's node instead.",
    ),
    Topic(
        "mknodat /dev/nvidia",
        "make a GPU's device node (SIMULATED)",
        "A real node with the numbers that NVIDIA's driver has (major 195; 195:255 is the control "
        "node), on a machine without that driver. So opening it gives ENXIO where the cgroup "
        "allows it, and EPERM where it does not.",
        man="mknod(2)",
        real="With a driver minirun binds the host's own node, as nvidia-container-cli does, "
        "after a look that its numbers are right.",
    ),
    Topic(
        "mkfifo",
        "make a named pipe",
        "A file through which two processes speak: opening it for reading waits for a writer, and "
        "the other way round. When one side dies, the other reads the end of the file.",
        man="mkfifo(3), fifo(7)",
    ),
    Topic(
        "mkfifo init.fifo",
        "init's way to the runtime",
        "Init says READY, RUN_HOOKS and WAITING here. It stays open until the container's "
        "command has been executed; a failed execve writes its errno into it.",
        man="fifo(7)",
        real="runc uses a socketpair.",
    ),
    Topic(
        "mkfifo runtime.fifo",
        "the runtime's way to init",
        "YOUR_TURN and HOOKS_DONE come through here.",
        man="fifo(7)",
        real="runc uses the same socketpair in both directions.",
    ),
    Topic(
        "mkfifo exec.fifo",
        "where a created container waits for `start`",
        "Init reads from it at the end of stage 7. `minirun start` writes one line into it and "
        "removes it: of several starts one wins.",
        man="fifo(7)",
        spec="runtime.md, Start",
        real="runc has a FIFO of the same name; there init opens it for writing, and `runc start` "
        "reads.",
    ),
    Topic(
        "mkfifo gate.fifo",
        "where a run waits to be looked at",
        "Made only with --step and its relatives. Whoever reaches a gate waits for one byte.",
        man="fifo(7)",
        real="runc and crun have no such gate.",
    ),
    Topic(
        "symlinkat",
        "make a symbolic link",
        "/dev/fd, /dev/stdin, /dev/stdout, /dev/stderr, /dev/ptmx; in stage 5 names of libraries "
        "that programs ask for, such as libcuda.so. Made below a held descriptor of the folder; "
        "a name that is there already is left alone.",
        man="symlink(2)",
        spec="config-linux.md, Default Devices",
        real="libnvidia-container makes libcuda.so -> libcuda.so.1 and two more in the same way.",
    ),
    Topic(
        "mkdir",
        "make a cgroup",
        "In a cgroup file system a new directory is a new cgroup, with its control files in it. "
        "On version 1 there is one in each controller's hierarchy.",
        man="cgroups(7)",
        spec="config-linux.md, Cgroups Path",
        real="runc makes them itself (cgroupfs) or asks systemd over D-Bus.",
    ),
    Topic(
        "rmdir",
        "remove a cgroup",
        "Possible once no process and no other cgroup is in it; EBUSY until then.",
        advice="Processes that have just died count for a moment longer: minirun tries again.",
        man="cgroups(7)",
    ),
    Topic(
        "write",
        "write a control file of a cgroup",
        "A limit, a device rule or a process: each is one small write, and the kernel answers "
        "with an errno where it does not like it.",
        man="cgroups(7)",
        spec="config-linux.md, Control groups",
        real="runc writes the same files.",
    ),
    Topic(
        "write devices.deny",
        "take all devices away (cgroup v1)",
        "A new cgroup has its parent's rules, so everything is denied first; exceptions follow.",
        man="the kernel's Documentation/admin-guide/cgroup-v1/devices.rst",
        spec="config-linux.md, Allowed Device list",
        real="runc brings the list from its present state to the wanted one; the result is equal.",
    ),
    Topic(
        "write devices.allow",
        "allow a device (cgroup v1)",
        "TYPE MAJOR:MINOR ACCESS, such as `c 195:0 rw`: r and w are for opening, m for mknod. One "
        "rule a write. In stage 5 these are exactly the GPU's nodes, never a whole major.",
        advice="devices.list says what is in force; so does minirun inspect --devices ID.",
        man="the kernel's Documentation/admin-guide/cgroup-v1/devices.rst",
        spec="config-linux.md, Allowed Device list",
        real="nvidia-container-cli writes `c 195:N rw` after each node it mounts. A daemon reload "
        "that rewrites the list takes the GPU away again: `Failed to initialize NVML: Unknown "
        "Error`.",
    ),
    Topic(
        "write tasks",
        "move into a cgroup (version 1)",
        "0 means: me. Moving another process by cgroup.procs makes the kernel wait until no "
        "process is in the middle of a fork or exit; a thread that moves itself waits for nobody.",
        man="cgroups(7)",
        real="runc's parent writes the child's pid into cgroup.procs.",
    ),
    Topic(
        "write cgroup.procs",
        "move a process into a cgroup",
        "All its threads go along; children born from now on are in it too.",
        man="cgroups(7)",
    ),
    Topic(
        "write memory.max",
        "limit memory (version 2)",
        "Above it the kernel first reclaims memory, then kills a process of the cgroup.",
        man="cgroups(7); the kernel's Documentation/admin-guide/cgroup-v2.rst",
        spec="config-linux.md, Memory",
    ),
    Topic(
        "write memory.limit_in_bytes",
        "limit memory (version 1)",
        "Above it the kernel first reclaims memory, then kills a process of the cgroup.",
        man="cgroups(7)",
        spec="config-linux.md, Memory",
    ),
    Topic(
        "write pids.max",
        "limit the number of tasks",
        "A fork or clone above it fails with EAGAIN. Threads count too.",
        man="cgroups(7)",
        spec="config-linux.md, PIDs",
    ),
    Topic(
        "write cpu.max",
        "limit CPU time (version 2)",
        "QUOTA PERIOD in microseconds: `150000 100000` is one and a half CPUs.",
        man="cgroups(7)",
        spec="config-linux.md, CPU",
    ),
    Topic(
        "write cpu.cfs_quota_us",
        "limit CPU time (version 1)",
        "Microseconds of CPU in each cpu.cfs_period_us; -1 means no limit.",
        man="cgroups(7)",
        spec="config-linux.md, CPU",
    ),
    Topic(
        "bpf",
        "speak to the kernel about BPF programs",
        "cgroup v2 has no list of devices: a small program is asked at every open and mknod of a "
        "device node. minirun assembles it from the rules.",
        man="bpf(2)",
        spec="config-linux.md, Allowed Device list",
        real="runc generates such a program too.",
    ),
    Topic(
        "bpf BPF_PROG_LOAD",
        "hand the device program to the kernel",
        "The verifier checks every instruction before it is accepted. In stage 5 it is loaded "
        "again, with the GPU's rules at the end, where they override.",
        man="bpf(2)",
        spec="config-linux.md, Allowed Device list",
        real="nvidia-container-cli puts tests in front of the program that is attached, once per "
        "device; minirun builds one program for all.",
    ),
    Topic(
        "bpf BPF_PROG_ATTACH",
        "put the device program to work",
        "From now on it decides for this cgroup. BPF_F_REPLACE exchanges it for the one before "
        "with no moment in between; BPF_F_ALLOW_MULTI leaves the ancestors' programs in force.",
        advice="bpftool cgroup show DIR lists what is attached.",
        man="bpf(2)",
        real="runc replaces its own program in the same way.",
    ),
    Topic(
        "bpf BPF_PROG_DETACH",
        "take the device program away",
        "The ancestors' programs stay in force.",
        man="bpf(2)",
    ),
    Topic(
        "bpf BPF_PROG_QUERY",
        "ask which program is attached",
        "Before stage 5 adds rules, it has to know the ones in force: they are read from the "
        "kernel, not from config.json.",
        man="bpf(2)",
    ),
    Topic(
        "bpf BPF_PROG_GET_FD_BY_ID",
        "get hold of the attached program",
        "A query returns numbers; a descriptor is needed to read or replace a program.",
        man="bpf(2)",
    ),
    Topic(
        "bpf BPF_OBJ_GET_INFO_BY_FD",
        "read the attached program",
        "Its instructions are turned back into rules. The kernel hides them where "
        "net.core.bpf_jit_harden blinds constants.",
        man="bpf(2)",
    ),
    Topic(
        "openat2",
        "open a path below the container's root, and nowhere else",
        "RESOLVE_IN_ROOT: whatever links the image holds, the kernel follows them inside the "
        "container's root only. minirun uses the descriptor from then on, never the path again. "
        "Not in the log: it makes nothing.",
        man="openat2(2)",
        real="runc does it with its securejoin/pathrs libraries; libnvidia-container resolved "
        "paths by hand (CVE-2024-0132).",
    ),
)
