"""The core: how a container starts. It is a book, read in a day, in this order.

    lifecycle           the table of contents: create, which is stages 1 to 7

The seven stages, in stages/. Functions are named after the actor: runtime(), init(), hook(), cli().

    stages/s1_clone     a copy of the runtime in new namespaces, and its root filesystem
    stages/s2_ask       init asks for the hooks, through a FIFO
    stages/s3_prestart  the runtime runs them; NVIDIA's is a process of minirun's own
    stages/s4_arguments the hook: config.json in, a command line out
    stages/s5_inject    the command line's work: the GPUs are put in. Read on in gpu/inject
    stages/s6_answer    the runtime says that the hooks are done
    stages/s7_exec      pivot_root, fewer privileges, execve

What the two sides say to each other, and what all of them write down.

    handshake           two FIFOs, drawn as a diagram; each side notices when the other dies
    hooks               one hook: its standard input, its time, its end
    events              the log: one line for each system call that makes the container
    gates               the points at which a run can be held, for a lesson
    errors              every error, with the exit status that runc or docker has for it

The container, and what is known of it.

    config              config.json, as the stages read it
    choices             what the caller's flags chose, and config.json may not choose
    settings            the global flags
    container           a container while a command works on it
    extras              what this container needs beyond the core: the table to the rings
    state, state_file   state.json, from one command to the next
    places              every file and folder that minirun keeps
    directories         a container's directory, from its making to its removal
    endings             the later life: start, kill, delete

The root filesystem, in rootfs/. Mounts, nodes and hidden paths of config.json are made by
oci/mounts, which extras names.

    rootfs/build        the overlay, or the bundle's directory
    rootfs              a plan: operations, whole before they are executed; see common/operations
    rootfs/inroot       the one way to touch a file of an image
    rootfs/tree         the removal of a tree of files

Becoming the command, in process/.

    process/streams     standard input, output and error
    process/barrier     no import from here on
    process/privileges  user, groups, working directory, in the one order that works
    process/caps        capabilities
    process/command     the program that config.json names
    process/trampoline  execve, without ever being the host's interpreter in the container

System calls, through ctypes, once, in kernel/.

    kernel              an error and an event for each call
    kernel/libc         how one is called, and logged
    kernel/namespaces   clone3, unshare, setns
    kernel/mounts       mount, pivot_root, open_tree, mount_setattr
    kernel/files        openat2, mkfifo, close_range
    kernel/process      prctl, capset, setuid, execve: the calls that process/ makes

Small tools: record (a tuple with names), jsonlite (JSON, cheaply), visible (text for a terminal).
"""
