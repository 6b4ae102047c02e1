"""System calls that make and change mounts."""

from minirun.view.knowledge.topic import Topic

TOPICS = (
    Topic(
        "mount",
        "mount a file system, or change a mount",
        "One call with many meanings; the flags and the file system's type say which. Mount "
        "points in the container are named /proc/self/fd/N: a descriptor that was resolved "
        "inside the container's root, so that a link of the image cannot lead out of it.",
        man="mount(2)",
        spec="config.md, Mounts",
        real="runc names its mount points through /proc/self/fd too, since CVE-2021-30465.",
    ),
    Topic(
        "mount overlay",
        "the container's root filesystem",
        "OverlayFS stacks directories: lowerdir are the image's layers, read-only and shared by "
        "all containers; upperdir gets what this container writes; workdir is the kernel's "
        "scratch space beside it. A file is copied up at its first change. Below upper there "
        "may be an init layer: the container's own tmpfs of mount points for the GPUs' files.",
        advice="What a container changed is what lies in <root>/<id>/upper.",
        man="mount(2); the kernel's Documentation/filesystems/overlayfs.rst",
        spec="config.md, Root",
        real="runc gets a ready root.path: containerd or docker mounted the overlay before, on "
        "the host. minirun does it in init's mount namespace, so it goes with the container.",
    ),
    Topic(
        "mount proc",
        "procfs for the new pid namespace",
        "A procfs shows the pid namespace of who mounted it. Init is in its own, so /proc lists "
        "only the container's processes. /proc must be a plain directory in the image: behind a "
        "link it would land elsewhere (CVE-2019-19921).",
        man="proc(5), pid_namespaces(7)",
        spec="config-linux.md, Default Filesystems",
    ),
    Topic(
        "mount tmpfs",
        "a file system in memory",
        "/dev and /dev/shm get one each, so that nodes and shared memory never touch the disk. "
        "Also used as a lid: an empty, read-only tmpfs hides a directory.",
        man="tmpfs(5)",
        spec="config-linux.md, Default Filesystems",
    ),
    Topic(
        "mount tmpfs /proc/driver",
        "hide the host's view of the GPUs",
        "procfs shows all of the host's GPUs below /proc/driver/nvidia. A small tmpfs is put "
        "over it, with copies of params and version, and later one directory for each chosen "
        "GPU. params says ModifyDeviceFiles: 0, so that the driver's own tools make no nodes.",
        man="tmpfs(5), proc(5)",
        real="libnvidia-container does the same with mode 0555. The newer jit-cdi way replaces "
        "only params, and leaves all GPUs in sight.",
    ),
    Topic(
        "mount devpts",
        "terminals of the container's own",
        "Pseudo-terminals are made through ptmx of a devpts mount. newinstance gives the "
        "container its own numbers, from /dev/pts/0 on; it cannot see the host's terminals.",
        man="pts(4)",
        spec="config-linux.md, Default Filesystems",
    ),
    Topic(
        "mount sysfs",
        "/sys, read-only",
        "sysfs shows the network devices of the network namespace, and the whole machine besides; "
        "so it is read-only. In a user namespace it can be mounted only with a network namespace "
        "of its own.",
        man="sysfs(5)",
        spec="config-linux.md, Default Filesystems",
    ),
    Topic(
        "mount mqueue",
        "POSIX message queues",
        "Shows the queues of the IPC namespace of who mounts it.",
        man="mq_overview(7), ipc_namespaces(7)",
    ),
    Topic(
        "mount cgroup",
        "the container's view of its cgroup, version 1",
        "One hierarchy per controller. Mounted after the cgroup namespace was made, the root of "
        "each is the container's own cgroup; read-only, since release_agent was once a way out "
        "(CVE-2022-0492).",
        man="cgroups(7), cgroup_namespaces(7)",
        spec="config-linux.md, Control groups",
    ),
    Topic(
        "mount cgroup2",
        "the container's view of its cgroup, version 2",
        "One hierarchy for all controllers, whose root is the container's own cgroup.",
        man="cgroups(7), cgroup_namespaces(7)",
        spec="config-linux.md, Control groups",
    ),
    Topic(
        "mount MS_BIND",
        "the same files at a second place",
        "Without MS_REC only this one mount comes along, not those below it. config.json's root "
        "is bound onto itself, because pivot_root wants a mount point.",
        man="mount(2), Creating a bind mount",
        spec="config.md, Mounts",
    ),
    Topic(
        "mount propagation",
        "cut the mount namespace off from the host's",
        "A new mount namespace starts as a copy, and mounts that are shared still tell each other "
        "of changes. MS_SLAVE|MS_REC lets news come in from the host but none go out; MS_PRIVATE "
        "neither.",
        advice="findmnt -o TARGET,PROPAGATION shows it.",
        man="mount_namespaces(7), Shared subtrees",
        spec="config-linux.md, Rootfs Mount Propagation",
        real="runc does the same first thing, rslave by default. A missing one let GPU mounts "
        "appear on the host.",
    ),
    Topic(
        "umount2",
        "take a mount away",
        "MNT_DETACH takes it out of the tree at once; the file system ends when nobody uses it "
        "any more. After pivot_root the host's whole tree leaves the container in this way.",
        man="umount(2)",
        real="runc makes the old root a slave once more, then detaches it too.",
    ),
    Topic(
        "pivot_root",
        "make the prepared tree the root",
        "Swaps the root of the mount namespace: the old one becomes an ordinary mount that can "
        'be taken away, which chroot cannot do. pivot_root(".", ".") stacks the old root upon '
        "the new one, so no directory for it is needed.",
        advice="Before it init's / is the host's, after it the container's: step over it with "
        "`minirun run --step=syscall`.",
        man="pivot_root(2), NOTES",
        spec="config.md, Root",
        real='runc calls pivot_root(".", ".") too; with --no-pivot it falls back to chroot, which '
        "minirun refuses. In stage 5 the child that becomes ldconfig pivots as well.",
    ),
    Topic(
        "chroot",
        "another root for this process alone",
        "Changes where / is looked up, and nothing else: the old tree stays mounted, and root can "
        "climb out again. So a container needs pivot_root.",
        man="chroot(2)",
        real="runc uses it only for --no-pivot.",
    ),
    Topic(
        "open_tree",
        "take a copy of a mount into the hand",
        "OPEN_TREE_CLONE makes a bind mount that hangs nowhere yet, and returns a descriptor. Its "
        "properties can be set before anybody sees it. The source is a path of the host or a "
        "descriptor, never a path of the image.",
        man="open_tree(2)",
        spec="config.md, Mounts",
        real="crun works this way. libnvidia-container uses mount(2) twice: once with MS_BIND, "
        "then a remount for read-only; in between the file is writable.",
    ),
    Topic(
        "mount_setattr",
        "set properties of a mount",
        "Read-only, nosuid, nodev, noexec; with AT_RECURSIVE for all mounts below too. On a mount "
        "that hangs nowhere yet there is no moment in which it could be used without them.",
        man="mount_setattr(2)",
        spec="config.md, Mounts (options)",
        real="runc uses it for the recursive options (rro, …), mount(2) with MS_REMOUNT for the "
        "others.",
    ),
    Topic(
        "mount_setattr MOUNT_ATTR_IDMAP",
        "an id-mapped mount",
        "Files of the host's root look as if they belonged to the container's root, without a "
        "chown on the disk. So all containers can share an image's layers, whatever user ids "
        "they run under.",
        man="mount_setattr(2), ID-mapped mounts",
        spec="config-linux.md, User namespace mappings",
        real="runc knows it for mounts of config.json; layers are containerd's business.",
    ),
    Topic(
        "move_mount",
        "hang a mount onto its place",
        "The target is a descriptor that was resolved inside the container's root. No path is "
        "looked up twice, so no link can be swapped in between (CVE-2021-30465, CVE-2024-0132).",
        man="move_mount(2)",
        real="libnvidia-container resolves the path below the root, makes the file there, and "
        "mounts by that path.",
    ),
    Topic(
        "fsopen",
        "begin a new file system, in steps",
        "The newer way to mount: fsopen names the type, fsconfig sets the options, fsmount makes "
        "a mount that hangs nowhere yet. Here: the empty tmpfs that will cover a hidden directory.",
        man="fsopen(2)",
        spec="config-linux.md, Masked Paths",
        real="runc mounts its cover with mount(2).",
    ),
    Topic(
        "fsconfig",
        "set an option of the new file system",
        "One call for each option; the last one, FSCONFIG_CMD_CREATE, makes the superblock.",
        man="fsconfig(2)",
    ),
    Topic(
        "fsmount",
        "make a mount of the new file system",
        "Returns a descriptor of a mount that hangs nowhere; move_mount puts it into the tree.",
        man="fsmount(2)",
    ),
)
