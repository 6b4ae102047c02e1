"""System calls that make processes, put them into namespaces, and let them become others."""

from minirun.view.knowledge.topic import Topic

TOPICS = (
    Topic(
        "clone3",
        "copy this process",
        "Makes a child that goes on from the same line. The flags say what it shares and which "
        "namespaces are new; CLONE_PIDFD also returns a descriptor, so that the child can be "
        "waited for and signalled even if its number is used again.",
        man="clone(2)",
        real="runc's children come from C code (nsenter) and from Go's os/exec.",
    ),
    Topic(
        "clone3 CLONE_NEW",
        "make the container's init, in new namespaces",
        "Each CLONE_NEW* flag gives the child a namespace of its own: mounts, host name, IPC, "
        "process numbers, network, users. With CLONE_NEWPID the child is process 1 inside and has "
        "another number outside: the one that this call returned. CLONE_INTO_CGROUP (cgroup v2) "
        "lets it be born in the container's cgroup.",
        advice="ls -l /proc/PID/ns shows the namespaces; minirun inspect ID says who shares them.",
        man="clone(2), namespaces(7), pid_namespaces(7)",
        spec="config-linux.md, Namespaces",
        real="runc unshares most namespaces in a first child and clones a second one, the real "
        "init, since a new pid namespace holds only children. One clone3 does both.",
    ),
    Topic(
        "clone3 helper",
        "a child without namespaces of its own",
        "A helper on the host's side: a hook of config.json, NVIDIA's hook in-line, or the "
        "process that puts id-mapped layers into init's mount namespace. Entering a mount "
        "namespace is for good, so somebody else than the runtime has to do it.",
        man="clone(2)",
        spec="config.md, POSIX-platform Hooks",
        real="runc starts each hook with os/exec.",
    ),
    Topic(
        "clone3 ldconfig",
        "a child that will be ldconfig",
        "It gets pid and IPC namespaces of its own, where ldconfig sees no other process, and then "
        "makes its world small: the container's cgroup, a copy of the mounts in which no device "
        "can be opened, the container's root as its root, one capability, limits.",
        man="clone(2)",
        real="nvidia-container-cli makes a child in new pid and IPC namespaces too.",
    ),
    Topic(
        "unshare",
        "move this process into new namespaces",
        "Like clone's flags, but for the process that calls.",
        man="unshare(2)",
        spec="config-linux.md, Namespaces",
    ),
    Topic(
        "unshare CLONE_NEWCGROUP",
        "a cgroup namespace, made late",
        "The root of a cgroup namespace is the cgroup in which its maker is at that moment. So "
        "init makes it itself, once it is in the container's cgroup: from then on "
        "/proc/self/cgroup reads / inside.",
        man="cgroup_namespaces(7)",
        spec="config-linux.md, Namespaces",
        real="runc does it at the same place, after the parent has moved init into its cgroup.",
    ),
    Topic(
        "unshare CLONE_NEWNS",
        "a mount namespace for one helper",
        "The process that will be ldconfig gets its own copy of the container's mounts. It can "
        "pivot and hide things there, and the container never sees it.",
        man="mount_namespaces(7)",
        real="nvidia-container-cli unshares before its pivot too.",
    ),
    Topic(
        "unshare CLONE_NEWTIME",
        "a time namespace for the next child",
        "Made by unshare, since the caller stays outside: only its next children live in it. "
        "Offsets of CLOCK_MONOTONIC and CLOCK_BOOTTIME can be set while it is empty.",
        man="time_namespaces(7)",
        spec="config-linux.md, Offset for Time Namespace",
    ),
    Topic(
        "setns",
        "enter a namespace that exists",
        "A descriptor of /proc/PID/ns/KIND, or of any file that such a namespace is bound to, "
        "is enough. config.json may name one by path (a pod's network); `exec` enters all of a "
        "container's.",
        man="setns(2)",
        spec="config-linux.md, Namespaces (path)",
        real="runc does it in C before Go's threads start.",
    ),
    Topic(
        "setns CLONE_NEWNS",
        "enter a mount namespace",
        "In stage 5: the cli goes to where init has mounted everything. pivot_root has not "
        "happened, so both trees are in sight, the host's driver and the container's root: "
        "the one moment at which a bind mount from one into the other is simple. "
        "In stage 1, with a user namespace: a helper brings the id-mapped layers there.",
        advice="This process can never come back, so it is a child of the runtime.",
        man="setns(2), mount_namespaces(7)",
        real="nvidia-container-cli is given --pid and enters /proc/PID/ns/mnt in the same way.",
    ),
    Topic(
        "execve",
        "become another program",
        "Written to the log right before, since a successful execve does not return. Memory, "
        "descriptors marked close-on-exec and the old program are gone afterwards; pid, "
        "namespaces, cgroup and user stay.",
        man="execve(2)",
        spec="config.md, Process (args)",
        real="runc ends in the same call.",
    ),
    Topic(
        "execve trampoline",
        "become 200 bytes that execute the command",
        "The last step but one: a tiny program in a sealed memory file. Were init still Python "
        "when the command starts, /proc/self/exe would be the host's interpreter, and a container "
        "could open it for writing (CVE-2019-5736).",
        man="memfd_create(2), execve(2)",
        real="runc copied its whole binary into a sealed memory file for this, and later put a "
        "read-only overlay over itself.",
    ),
    Topic(
        "execve ldconfig",
        "become the host's ldconfig, on the container's files",
        "The program was opened on the host and is executed by its descriptor. It is static, so "
        "no loader of the image comes into play, and its environment is empty.",
        man="ldconfig(8), execveat(2)",
        real="nvidia-container-cli opens @/sbin/ldconfig on the host and uses fexecve. An image's "
        "own ldconfig was once run here: CVE-2024-0136, CVE-2024-0137.",
    ),
)
