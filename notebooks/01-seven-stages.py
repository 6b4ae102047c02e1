# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 1 · The seven stages of a GPU container's start
#
# `docker run --gpus 0,1 ubuntu` looks like a single step. In it, a process is born into new
# namespaces, waits while another process puts two GPUs into its half-built world, and then forgets the
# host for good. Every other runtime hides this moment. Here you walk through it:
#
# | stage | who | what happens |
# |---|---|---|
# | 1 | runtime | `clone()` makes the container's init process; OverlayFS makes its root filesystem |
# | 2 | init | asks the runtime, through a named FIFO, to run the prestart hooks; waits |
# | 3 | runtime | runs each prestart hook of `config.json` |
# | 4 | hook | turns `config.json` into an argument list for `nvidia-container-cli` |
# | 5 | cli | does the work: device nodes, driver files, cgroup rules |
# | 6 | runtime | answers through the FIFO: hooks done |
# | 7 | init | `pivot_root()`, fewer privileges, `exec()` of the command |
#
# **How to use this page.** Before each look there is a question. Choose an answer with its button,
# and only then run the next cell. What is right is not written here: it is read from the kernel, or
# from the log of the run. (The buttons need `pip install anywidget`; without them write the number of
# your choice into the question: `predict(…, answer=2)`.)
#
# As root on Linux you make a real container now. Anywhere else the same cells read a recorded run.

# %%
import os

import minirun
from minirun import Namespaces, predict

live = minirun.can_run()
print("live" if live else f"from a recording: {live.reason}")

# %% [markdown]
# ## The run
#
# `snapshots=True` stops for a moment at the beginning and the end of each stage and writes down what the
# kernel says of the container there, so the times below are longer than those of a plain run.
# `gpu_driver="simulated"` needs no GPU: nodes, mounts and rules are real, but no driver is behind
# them, and SIMULATED stands wherever it shows. With two NVIDIA GPUs you may leave it out.

# %%
if live:
    container = minirun.run(
        "ubuntu", "sleep", "600",
        gpus="0,1", gpu_driver="simulated", detach=True, snapshots=True,
    )  # fmt: skip
    timeline = container.timeline
else:
    timeline = minirun.replay("gpus-0-1")
    print(timeline)

# %% [markdown]
# Time runs downwards. The left lane is the **runtime** (`minirun` itself), the right lane is
# **init**, the process that will become `sleep`. An arrow is a message through a FIFO. The **hook**
# and the **cli** are guests in the runtime's lane.
#
# ## Stage 1 · init is born
#
# The kernel gives every namespace a number. Two processes that show the same number under
# `/proc/PID/ns` share that namespace.

# %%
first = predict(
    "Which namespaces does the new container share with the host?",
    ["none", "user, time", "net, user, time", "mnt, pid"],
)
first

# %%
namespaces = container.namespaces if live else timeline.namespaces
host = Namespaces.host() if live else timeline.host
namespaces.compare(host)

# %%
first.check(
    ", ".join(namespaces.shared(host)) or "none",
    reason="namespaces",
)

# %% [markdown]
# One call made most of them. (The cgroup namespace is missing in its flags: its root is wherever its
# maker is at that moment, so init makes it itself, once it is in its cgroup.)

# %%
births = timeline.filter(stage=1, name="clone3")
birth = next(event for event in births if "CLONE_NEW" in event.args["flags"])
print(birth.args["flags"].replace("|", "\n"))
print("→ init is process", birth.ret, "on the host")

# %% [markdown]
# ## Stage 2 · init asks
#
# The root filesystem is mounted, but the command does not run yet. The hooks of `config.json` have to run in
# the *host's* namespaces, which init has left.

# %%
second = predict(
    "Who asks whom to run the hooks?",
    ["the runtime asks init", "init asks the runtime", "the hook asks the runtime"],
)
second

# %%
print(timeline.filter(kind="message"))

# %%
asked = next(message for message in timeline.messages if message.name == "RUN_HOOKS")
names = {"runtime": "the runtime", "init": "init", "hook": "the hook"}
second.check(
    f"{names[asked.sender]} asks {names[asked.receiver]}",
    reason="who-asks",
)

# %% [markdown]
# ## Stage 3 · the runtime runs the hook
#
# For a GPU there is one prestart hook, `nvidia-container-runtime-hook`. minirun calls it
# in-line, in a process that it clones when init has asked.

# %%
third = predict(
    "In whose namespaces does the hook start?",
    ["the container's", "the host's", "new ones of its own"],
)
third

# %%
fork = timeline.filter(stage=3, name="clone3")[0]
entered = timeline.filter(name="setns")
print(f"stage {fork.stage}, clone3:", fork.args["flags"])
for event in entered:
    print(f"stage {event.stage}, setns :", event.args["path"])

# %%
new = "CLONE_NEW" in fork.args["flags"]
moved = any(event.stage <= 3 and event.pid == fork.ret for event in entered)
third.check(
    "new ones of its own" if new else "the container's" if moved else "the host's",
    reason="hook-namespaces",
)

# %% [markdown]
# ## Stage 4 · an interface, nothing else
#
# The hook decides nothing. It reads `config.json` (in it `NVIDIA_VISIBLE_DEVICES=0,1`, Figure 2) and
# writes one command line for `nvidia-container-cli`.

# %%
fourth = predict(
    "How does the command line say which container is meant?",
    ["--id: the container's name", "--pid: init's process id", "--device: the GPUs"],
)
fourth

# %%
argv = timeline.filter(stage=4, name="nvidia-container-cli")[0].args["argv"]
print("nvidia-container-cli", *argv, sep="\n  ")

# %%
init = timeline.pids["init"]
flag = next(word.partition("=")[0] for word in argv if word.endswith(f"={init}"))
meaning = {"--id": "the container's name", "--pid": "init's process id", "--device": "the GPUs"}
fourth.check(
    f"{flag}: {meaning[flag]}",
    reason="interface",
)

# %% [markdown]
# ## Stage 5 · the GPUs go in
#
# Now the cli enters init's mount namespace, where everything is mounted, and `pivot_root` has not
# happened: the host's tree and the container's can both be seen. It puts in what a GPU needs.

# %%
fifth = predict(
    "Two GPUs are asked for. How many device nodes are added to /dev?",
    [2, 3, 5, 8],
)
fifth

# %%
devices = container.devices if live else timeline.devices
devices

# %%
fifth.check(
    len(devices.nodes.added),
    reason="nodes",
)

# %% [markdown]
# That is what the log says. Ask the kernel: look at the nodes through `/proc/PID/root`, the door to
# the container's files.

# %%
for path, numbers in sorted(devices.numbers.items()):
    if live:
        status = os.stat(f"/proc/{container.pid}/root{path}")
        seen = os.major(status.st_rdev), os.minor(status.st_rdev)
        same = "the same" if seen == numbers else "NOT THE SAME"
        print(f"{path:24} log {numbers!s:10} kernel {seen!s:10} {same}")
    else:
        print(f"{path:24} log {numbers!s:10} (a recording has no kernel to ask)")

# %% [markdown]
# A node is only a name for two numbers. Root in the container has `CAP_MKNOD` and can make a node for
# GPU 2, which it was not given.

# %%
sixth = predict(
    "Root in the container runs `mknod /tmp/gpu2 c 195 2` and opens it. What happens?",
    [
        "it works: root may do it",
        "mknod fails",
        "open fails: not permitted",
        "open fails: no device",
    ],
)
sixth

# %%
if live:
    made = container.exec("mknod", "/tmp/gpu2", "c", "195", "2")
    opened = container.exec("cat", "/tmp/gpu2")
    print(opened)
    if made.exit_status:
        happened = "mknod fails"
    elif "not permitted" in opened.output:
        happened = "open fails: not permitted"
    elif opened.exit_status:
        happened = "open fails: no device"
    else:
        happened = "it works: root may do it"
else:
    rules = timeline.snapshots["5:end"]["devices"]
    print(*rules, sep="\n")
    given = any(rule.startswith(("c 195:2 ", "c 195:* ", "a ")) for rule in rules)
    happened = "it works: root may do it" if given else "open fails: not permitted"

# %%
sixth.check(
    happened,
    reason="permission",
)

# %% [markdown]
# ## Stage 6 · the answer
#
# Since stage 2, init has waited.

# %%
seventh = predict(
    "What wakes init?",
    ["the hook's end (SIGCHLD)", "the message HOOKS_DONE", "a signal from the runtime"],
)
seventh

# %%
to_init = [message for message in timeline.messages if message.receiver == "init"]
answer = next(message for message in to_init if message.t > asked.t)
waited = (answer.t - asked.t) / 1e6
print(f"{answer.sender} → init: {answer.name}, {waited:.1f} ms after the question")
seventh.check(
    f"the message {answer.name}",
    reason="waking",
)

# %% [markdown]
# ## Stage 7 · the host disappears
#
# Until now init could see both worlds, and it was as mighty as the host's root.

# %%
eighth = predict(
    "How many of the host's mounts can init still see after stage 7?",
    ["all", "some", "none"],
)
eighth

# %%
before, after = timeline.snapshots["7:begin"], timeline.snapshots["7:end"]
hosts = []
for when, taken in (("before", before), ("after", after)):
    hosts.append(sum(mount.startswith("host:") for mount in taken["mounts"]))
    held = int(taken["processes"]["init"]["capabilities"], 16).bit_count()
    print(f"{when:7} {hosts[-1]:3} mounts of the host, {held:2} capabilities")

# %%
seen, left = hosts
eighth.check(
    "none" if not left else "all" if left == seen else "some",
    reason="pivot_root",
)

# %% [markdown]
# Then `exec()`: the process stays the same, its program changes. What it is now:

# %%
if live:
    print(container.exec("nvidia-smi", "-L"))
    with open(f"/proc/{container.pid}/cmdline") as file:
        words = file.read().split("\0")
    print(f"process {container.pid} is still init, and now it is", *words)
else:
    print(timeline.filter(stage=7, name="execve"))

# %% [markdown]
# ## All of it
#
# The whole run, as the log has it. Every line is an event that the acting process wrote right after
# the system call; a test compares the log with what strace sees.

# %%
timeline

# %% [markdown]
# ## Once more, by hand
#
# Now you open the gates. The run below stands still before stage 1. Go on with
# **Next**, or **Until** `mknodat`; after stage 5 run `ls -l /dev` in the half-built container; ask **Why**.
# From code: `stepper.next()`, `stepper.until("5:end")`, `stepper.shell("ls -l /dev")`.

# %%
stepper = minirun.step("ubuntu", "nvidia-smi -L", gpus="0,1", gpu_driver="simulated")
stepper

# %% [markdown]
# ## Summary
#
# - A container is made by **two processes that talk**: the runtime, which stays on the host, and
#   init, which is born into new namespaces and ends as your command.
# - Between stage 2 and stage 6 there is a **half-built container**: everything is mounted, but the command does not run yet.
#   This is the moment in which the GPU is put in.
# - The hook is **an interface**; the work is done in stage 5: nodes, files, and one cgroup rule for
#   each device. The node names the device, **the rule permits it**.
# - `pivot_root` comes **last**, because the host's driver files have to be seen until then.
#
# ## What to try
#
# - `gpus="3"` (a bare number is an index), `gpus="count=2"`, `gpus="none"`: how do nodes, rules and
#   the argument list change?
# - `minirun.run("ubuntu", "true", uidmap="0:100000:65536")`: which namespaces are shared now?
# - `timeline.filter(stage=5, name="mount")`, `timeline.between("1:begin", "1:end")`.
# - In a terminal, stop at each stage and look around: `minirun run --step --gpus 0,1 ubuntu`
#   (see `tutorials/01-seven-stages.en.md`).

# %%
stepper.remove()
if live:
    container.remove()
    print(container)
