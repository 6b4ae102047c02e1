"""The core: how a container starts. It is a book, read in a day, in this order.

    lifecycle             the table of contents: create, which is stages 1 to 7

The seven stages, in stages/. Functions are named after the actor: runtime(), init(), hook(), cli().

    stages/s1_clone       a copy of the runtime in new namespaces, and its root filesystem
    stages/s2_ask         init asks for the hooks, through a FIFO
    stages/s3_prestart    the runtime runs them; NVIDIA's is a process of minirun's own
    stages/s4_arguments   the hook: config.json in, a command line out
    stages/s5_inject      the command line's work: the GPUs are put in. Read on in gpu/inject
    stages/s6_answer      the runtime says that the hooks are done
    stages/s7_exec        pivot_root, fewer privileges, execve

What the two sides say to each other, and what all of them write down.

    handshake             two FIFOs, drawn as a diagram; each side notices when the other dies
    hooks                 one hook: its standard input, its time, its end
    events                the log: one line for each system call that makes the container
    gates                 the points at which a run can be held, for a lesson
    errors                every error, with the exit status that runc or docker has for it

The container, and what is known of it.

    config                config.json, as the stages read it
    container             a container while a command works on it; the points of its extras
    extras                what this container needs beyond the core: the table to the rings
    rings                 the functions of the rings that the core calls for each container
    lazy                  a module's name now, the module at its first use
    cgroup                what the stages ask of a cgroup
    endings               the later life: start, kill, delete

The root filesystem, in rootfs/: what init builds in stage 1, and hides in stage 7.

    rootfs                a plan: operations, whole before they are executed
    rootfs/build          the overlay, or the bundle's directory
    rootfs/mount_list     all mounts of config.json, in order: /proc, /dev, /sys, what -v names
    rootfs/mount_entry    one of them: a new file system, or a bind mount
    rootfs/mount_options  its words: ro, nosuid, rbind, …
    rootfs/cgroup_mounts  /sys/fs/cgroup
    rootfs/nodes          /dev/null, the other device nodes, and the links of /dev
    rootfs/hidden         what the container may not see or write, such as /proc/kcore
    rootfs/operations     what a plan consists of: a link, a node, a file, a mount
    rootfs/inroot         the one way to touch a file of an image
    rootfs/own_root       nothing for the container is made among files of the host
    rootfs/tree           the removal of a tree of files

Becoming the command, in process/.

    process/streams       standard input, output and error
    process/barrier       no import from here on
    process/privileges    user, groups, working directory, in the one order that works
    process/caps          capabilities
    process/command       the program that config.json names
    process/trampoline    execve, without ever being the host's interpreter in the container

System calls, through ctypes, once, in kernel/.

    kernel                an error and an event for each call
    kernel/libc           how one is called, and logged
    kernel/architecture   the processors, by all their names, and the numbers of calls on each
    kernel/namespaces     clone3, unshare, setns
    kernel/mounts         mount, pivot_root, open_tree, mount_setattr
    kernel/mountinfo      the mounts that a process sees
    kernel/files          openat2, mkfifo, close_range
    kernel/signals        signal(7)
    kernel/process        prctl, capset, setuid, execve: the calls that process/ makes

An appendix, which a reader may skip: keeping/, state.json and the like. Its own list says what is
where.

From config.json on, the core is the whole start of a container, except these, which extras and
rings name (gpu/inject: stages/s5_inject). `run --gpus 0 IMAGE` without a network needs no more.
What comes before, an image and its config.json, is no part of a start.

    running/supervise     calls create, and stays until the container ends
    oci/validate          checks the config.json of a bundle before anything reads it
    cgroups               stage 1: the cgroup, with its limits and device rules; cgroups/v1 or
                          cgroups/v2 has those of this host's version
    net                   Loopback, an extra. Stage 1: the loopback device
    net/attach            Networks, an extra. Stage 1: the networks, and after the end; with none it
                          returns at once
    oci/home              Home, an extra. While the hooks run: $HOME, from the image's /etc/passwd
    oci/seccomp           Seccomp, an extra. The filter of system calls, compiled in stage 1 and
                          installed in stage 7
    oci/tuning/sysctl     Sysctl, an extra. Stage 7: docker's two parameters of a network namespace
    common/naming         Named, an extra. After the end: its name is free again
    gpu/nvidia/hook       stage 4: the translation, also as a program of its own
    gpu/inject            stage 5: the order of the work. gpu/nvidia/cli/planner plans what is put
                          in; gpu/apply puts it in

So a plain start has six of the extras in the table of extras.
tutorials/reference/one-start.md lists each function of a start, in the order in which they run;
begin there to see how much it is.
"""
