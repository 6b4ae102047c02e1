"""What is in the log besides system calls: messages, notes and gates."""

from minirun.view.knowledge.topic import GATE, MESSAGE, NOTE, Topic

MESSAGES = (
    Topic(
        "MAPPED",
        "the runtime has written the id maps",
        "Only with a user namespace: uid_map and gid_map can be written by somebody outside. "
        "Init may become root of its user namespace now.",
        man="user_namespaces(7)",
        spec="config-linux.md, User namespace mappings",
        real="runc's C code has the same step (SYNC_USERMAP_PLS, SYNC_USERMAP_ACK).",
        kind=MESSAGE,
    ),
    Topic(
        "READY",
        "the root filesystem is built",
        "End of stage 1: everything is mounted, and nobody lives in it yet.",
        real="runc's init says procHooks at this point: both in one.",
        kind=MESSAGE,
    ),
    Topic(
        "YOUR_TURN",
        "go on, I wait",
        "Only who has the turn begins or ends a stage. So the log is in order by construction.",
        real="runc has no such message: its order follows from request and answer.",
        kind=MESSAGE,
    ),
    Topic(
        "RUN_HOOKS",
        "please run the prestart hooks",
        "Stage 2. Init cannot do it itself: the hooks belong into the host's namespaces.",
        spec="config.md, POSIX-platform Hooks",
        real="runc's procHooks, a JSON message over a socketpair.",
        kind=MESSAGE,
    ),
    Topic(
        "STATE",
        "the container's state, as JSON, on the hook's standard input",
        "Stage 3. The hook learns who the container is, and has the turn. Its process was "
        "made during stage 1, so that it is ready by now.",
        man="pipe(7)",
        spec="runtime.md, State; config.md, POSIX-platform Hooks",
        real="runc executes the hook's program now, and writes the same document to it.",
        kind=MESSAGE,
    ),
    Topic(
        "HOOKS_DONE",
        "every hook ended with status 0",
        "Stage 6. Had one failed, init would read ERROR instead, and end.",
        spec="config.md, POSIX-platform Hooks",
        real="runc's procHooksDone (once procResume).",
        kind=MESSAGE,
    ),
    Topic(
        "LISTENER",
        "here is a descriptor that system calls are announced on",
        "Its number in init. The filter has SCMP_ACT_NOTIFY: a program outside decides over some "
        "calls, and the runtime takes the descriptor out of init with pidfd_getfd.",
        man="seccomp_unotify(2), pidfd_getfd(2)",
        spec="config-linux.md, Seccomp (listenerPath)",
        real="runc's init says the same over its socketpair, and waits too.",
        kind=MESSAGE,
    ),
    Topic(
        "TAKEN",
        "the listener is with the program at listenerPath",
        "From now on somebody answers for the calls that init makes under the filter.",
        spec="config-linux.md, Seccomp (listenerPath)",
        kind=MESSAGE,
    ),
    Topic(
        "WAITING",
        "init waits at exec.fifo",
        "`create` is done. The container is set up, has dropped its privileges, and will become "
        "its command as soon as `start` writes to exec.fifo.",
        spec="runtime.md, Create; runtime.md, Start",
        real="runc's init closes its pipe instead, and opens exec.fifo for writing, which waits.",
        kind=MESSAGE,
    ),
    Topic(
        "systemd",
        "ask systemd over D-Bus",
        "Only with --systemd-cgroup: StartTransientUnit makes the container's cgroup as a scope, "
        "SetUnitProperties tells its limits and devices, StopUnit ends it.",
        man="org.freedesktop.systemd1(5), systemd.scope(5)",
        spec="config-linux.md, Cgroups Path",
        real="runc's systemd driver makes the same calls, with init's number as the first process.",
        kind=MESSAGE,
    ),
    Topic(
        "ERROR",
        "it went wrong; this is why",
        "Either side can say it instead of what is expected. Text, hint and exit status go along "
        "as JSON, and the runtime prints them as its one line.",
        advice="Look at the line before it in the log: the call that failed, with its errno.",
        real="runc's procError.",
        kind=MESSAGE,
    ),
    Topic(
        "console",
        "the master end of the terminal goes to the caller",
        "The terminal is made in the container's own devpts, so only init can open it. Its master "
        "end travels through a Unix socket as a descriptor (SCM_RIGHTS).",
        man="unix(7), pts(4)",
        spec="config.md, Process (terminal)",
        real="runc's --console-socket works in the same way.",
        kind=MESSAGE,
    ),
)

NOTES = (
    Topic(
        "origin",
        "who asked for this container, and where it lies",
        "The engine, and the container's name and image where config.json's annotations tell them; "
        "the bundle, and the state root (--root) that the engine calls minirun with.",
        advice="minirun timeline lists the containers of all engines and roots.",
        real="runc leaves no log behind; each engine has one of its own.",
        kind=NOTE,
    ),
    Topic(
        "no prestart hook",
        "config.json has none",
        "Stages 4 and 5 have nothing to do, and do not happen.",
        advice="--gpus puts NVIDIA's hook into config.json.",
        spec="config.md, POSIX-platform Hooks",
        kind=NOTE,
    ),
    Topic(
        "no cgroup",
        "the user may make none, and the container does without",
        "Nothing is counted or limited, and it cannot be paused; the end of its pid namespace ends "
        "all of it. A container that asks for a limit is refused instead.",
        advice="systemd-run --user --scope -p Delegate=yes minirun …",
        man="cgroups(7), Cgroups delegation",
        real="runc and crun go on as well where nothing is asked for.",
        kind=NOTE,
    ),
    *(
        Topic(
            name,
            "a program with the right to do so writes an id map",
            f"Without root only one's own id can be mapped; {file} grants the others.",
            man=f"{name}(1), user_namespaces(7)",
            spec="config-linux.md, User namespace mappings",
            real="runc, crun and podman call the same program.",
            kind=NOTE,
        )
        for name, file in (("newuidmap", "/etc/subuid"), ("newgidmap", "/etc/subgid"))
    ),
    Topic(
        "hook ended",
        "a hook of config.json has ended",
        "With its exit status; below 0 it is the number of the signal that killed it. Anything "
        "but 0 ends the container, except for poststop hooks.",
        spec="config.md, POSIX-platform Hooks",
        kind=NOTE,
    ),
    Topic(
        "criu ended",
        "CRIU has ended",
        "With its exit status. CRIU saved the container's processes as files, or made them of "
        "files again; the execve before it has its command line. What it did is in its own log, "
        "dump.log or restore.log, next to the files.",
        advice="The first line with Error in that log is nearly always the reason.",
        man="criu(8)",
        real="runc runs criu swrk and speaks protocol buffers with it.",
        kind=NOTE,
    ),
    Topic(
        "warning",
        "something that the user was told",
        "One line on stderr, kept in the log: what is wrong, and what to do about it. Where GPUs "
        "are put in, the real stack passes over most of it in silence.",
        advice="minirun gpu why ID shows what a container was given, and what it has.",
        kind=NOTE,
    ),
    Topic(
        "no new session keyring",
        "the kernel gave no new keyring",
        "It has none, or a quota is used up. The container then sees the caller's keys; docker "
        "and runc go on as well.",
        man="keyctl(2), session-keyring(7)",
        kind=NOTE,
    ),
    Topic(
        "seccomp listener",
        "a program outside decides over some system calls",
        "The runtime has sent the descriptor of the filter's listener, with the container's state, "
        "to the socket that config.json names.",
        man="seccomp_unotify(2)",
        spec="config-linux.md, The Container Process State",
        kind=NOTE,
    ),
    Topic(
        "label passed over",
        "this kernel lacks the security module",
        "config.json has a profile or label for AppArmor or SELinux. Without the module in the "
        "kernel nobody would look at it: the container runs, and is not confined by it.",
        advice="cat /sys/kernel/security/lsm names the modules of this kernel.",
        spec="config.md, Linux Process (apparmorProfile, selinuxLabel)",
        real="runc refuses such a container; crun runs it without a word.",
        kind=NOTE,
    ),
    Topic(
        "no limit of processes",
        "a default that cannot be kept here",
        "minirun run limits a container to 2048 processes. Without a cgroup, or without its pids "
        "controller, there is nothing that could count them: the container runs without a limit.",
        advice="--pids-limit N makes it an error instead; --pids-limit -1 asks for none.",
        spec="config-linux.md, PIDs",
        real="podman leaves its default out, too, where there is no such controller.",
        kind=NOTE,
    ),
    Topic(
        "capabilities refused",
        "capabilities that cannot be granted",
        "minirun does not hold them itself. The specification makes it a warning.",
        advice="grep CapBnd /proc/self/status shows what can be granted.",
        man="capabilities(7)",
        spec="config.md, Linux Process (capabilities)",
        kind=NOTE,
    ),
    Topic(
        "execve failed",
        "the container's command did not start",
        "The trampoline reported this errno. Exit status 127 for ENOENT, otherwise 126.",
        advice="ENOENT for a program that exists: its interpreter (#! line, or the loader) does "
        "not. ENOEXEC: another processor's, or a script without a #! line.",
        man="execve(2)",
        kind=NOTE,
    ),
    Topic(
        "exec failed",
        "minirun exec could not start its command",
        "An error that is minirun's own fault: please report it with this text.",
        kind=NOTE,
    ),
    Topic(
        "snapshot",
        "the container as it was at this boundary",
        "Namespaces, mounts, files, devices and both processes, read from the kernel while the "
        "run stood still. run --snapshots and --step take them.",
        man="proc(5)",
        kind=NOTE,
    ),
)

GATES = (
    Topic(
        "gate",
        "the run stands still at the boundary of a stage",
        "N:begin or N:end. Whoever reaches it waits at gate.fifo for one byte; nothing is "
        "simulated, so every kernel object is as it is at this moment.",
        advice="minirun run --step opens gates with the key n.",
        man="fifo(7)",
        real="runc and crun have no such gate.",
        kind=GATE,
    ),
    Topic(
        "gate syscall",
        "the run stands still after a system call",
        "--step=syscall: `after` names the call that has just returned.",
        man="fifo(7)",
        real="A debugger could do this; it would also stop at the hundreds of calls between.",
        kind=GATE,
    ),
)
