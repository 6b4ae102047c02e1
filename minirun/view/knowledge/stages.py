"""The seven stages of Figure 3."""

from minirun.view.knowledge.topic import STAGE, Topic

STAGES = (
    Topic(
        "stage 1",
        "clone and root filesystem",
        "The runtime makes FIFOs and the cgroup, then copies itself with clone3() into new "
        "namespaces. The copy is init: it mounts the overlay, /proc, /dev and the rest in its own "
        "mount namespace, where the host cannot see them, and says READY.",
        advice="At its end the container is half-started: everything is mounted, but init's / is "
        "still the host's. Compare both with `minirun run --step`, key i.",
        man="clone(2), namespaces(7), mount_namespaces(7)",
        spec="config-linux.md, Namespaces; config.md, Mounts",
        real="runc executes itself anew (`runc init`) and clones twice in C code (nsenter) before "
        "Go starts, because a program with threads cannot enter every namespace. minirun is one "
        "thread and clones once.",
        kind=STAGE,
    ),
    Topic(
        "stage 2",
        "ask for the prestart hooks",
        "Init writes RUN_HOOKS into a named FIFO and waits. It has to ask: a prestart hook runs "
        "in the host's namespaces, and init has left those.",
        advice="While init waits, nothing in the container moves: this is the moment to look.",
        man="fifo(7)",
        spec="runtime.md, Lifecycle; config.md, Prestart",
        real="runc sends the same request (procHooks) over a socketpair, and keeps its only FIFO, "
        "exec.fifo, for `start`.",
        kind=STAGE,
    ),
    Topic(
        "stage 3",
        "run the prestart hooks",
        "The runtime runs the prestart and createRuntime hooks of config.json one after the "
        "other, with the container's state as JSON on their standard input. Each runs as the "
        "runtime does: on the host, as root.",
        advice="A hook that fails ends the container; the end of what it said is in the error.",
        man="execve(2), pipe(7)",
        spec="config.md, POSIX-platform Hooks",
        real="runc does the same, at the same moment: mounts are made, pivot_root is not. "
        "NVIDIA's hook is one of these programs; minirun calls it in-line instead, in a child "
        "process that it made during stage 1, so that stages 4 and 5 can be watched.",
        kind=STAGE,
    ),
    Topic(
        "stage 4",
        "make arguments for nvidia-container-cli",
        "The hook reads config.json and the container's environment (NVIDIA_VISIBLE_DEVICES, "
        "NVIDIA_DRIVER_CAPABILITIES, NVIDIA_REQUIRE_*) and turns them into one argument list. "
        "It does no work of its own: the list is all that it decides.",
        advice="The note nvidia-container-cli holds the list. NVIDIA_VISIBLE_DEVICES unset, empty "
        "or void means: no GPU, and stage 5 does not happen.",
        spec="config.md, Prestart; config.md, Process (env)",
        real="nvidia-container-runtime-hook is a program of its own and replaces itself by "
        "nvidia-container-cli with execve. minirun passes the same list to a function.",
        kind=STAGE,
    ),
    Topic(
        "stage 5",
        "put the GPUs in",
        "In init's mount namespace, before pivot_root: driver libraries and programs are bound "
        "read-only, device nodes appear, /proc/driver/nvidia shows only the chosen GPUs, the "
        "cgroup opens to exactly these nodes, and the host's ldconfig makes the SONAME links.",
        advice="minirun diff ID --stage 5 shows what came in. Nothing of the image is used as a "
        "source of a mount, and nothing of it is executed.",
        man="setns(2), mount_namespaces(7)",
        spec="the Container Device Interface's containerEdits; not in the runtime-spec",
        real="nvidia-container-cli does the same work, with ldconfig last and a device rule after "
        "each node; minirun lets ldconfig work beside the rest, and writes all rules at the end. "
        "What it made for an earlier container of the image is kept: see `ld.so.cache kept`.",
        kind=STAGE,
    ),
    Topic(
        "stage 6",
        "answer: hooks done",
        "The runtime writes HOOKS_DONE into the FIFO on which init has waited since stage 2. "
        "If a hook failed, init gets an ERROR instead and ends.",
        man="fifo(7)",
        spec="runtime.md, Lifecycle",
        real="runc answers procHooksDone over its socketpair (older versions: procResume).",
        kind=STAGE,
    ),
    Topic(
        "stage 7",
        "pivot_root and exec",
        "Init makes the prepared tree its /, lets go of the host's, hides parts of /proc and "
        "/sys, drops capabilities, user and groups, waits at exec.fifo for `start`, and becomes "
        "the container's command.",
        advice="From pivot_root on every path is the image's: nothing is imported or looked up by "
        "name any more. An exit status of 127 means that the command was not found, 126 that it "
        "may not be executed.",
        man="pivot_root(2), capabilities(7), execve(2)",
        spec="runtime.md, Lifecycle; config.md, Process",
        real="runc has the same order. Its init waits by opening exec.fifo for writing; minirun's "
        "waits by reading from it.",
        kind=STAGE,
    ),
)
"""In their order."""

WORDS = {
    1: ("s1_clone", "clone"),
    2: ("s2_ask", "ask"),
    3: ("s3_prestart", "prestart"),
    4: ("s4_arguments", "arguments"),
    5: ("s5_inject", "inject"),
    6: ("s6_answer", "answer"),
    7: ("s7_exec", "exec"),
}
"""Other names of each stage: its module, with and without the number."""

ACTORS = {"runtime": (1, 3, 6), "init": (2, 7), "hook": (4,), "cli": (5,)}
"""Which stages belong to an actor."""
