"""`minirun run --dry-run`: what a run would do, stage by stage, and nothing of it done.

The plans are the run's own: the same operations, in the same order, which say themselves what they
would do. What only a living container knows has its name in capitals: PID.
"""

from __future__ import annotations

import os

from minirun.cgroups import cgroup_of
from minirun.core import extras
from minirun.core.container import Container
from minirun.core.keeping import jsonlite
from minirun.core.keeping.visible import clean
from minirun.core.kernel import namespaces
from minirun.core.rootfs import build
from minirun.core.rootfs.inroot import Root
from minirun.core.stages import s1_clone, s3_prestart, s7_exec
from minirun.faces.show.text import network_plan
from minirun.gpu import inject
from minirun.gpu.nvidia import hook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from minirun.core.rootfs import Operation
    from minirun.gpu.steps import Step

_PID = 4194305
"""A number that no process has: /proc/sys/kernel/pid_max is at most 1 << 22 (proc(5))."""


def lines(container: Container) -> Iterator[str]:
    """Yield the plan of a container that is not made, as text. Raises MinirunError, OSError."""
    config = container.config
    extras.prepare(container)
    yield from _stage(1, "runtime", "clone and root filesystem", _first(container))
    if networks := network_plan.lines(container, _PID):
        yield from _stage(1, "runtime", "network, while init makes the root", networks)
    yield from _stage(2, "init", "ask for the prestart hooks", ["RUN_HOOKS → init.fifo"])
    turns = s3_prestart.planned_hooks(config)
    hooks = [
        f"{turn.kind} hook {turn.number} ({turn.hook['path']})"
        f"{', in-line: stages 4 and 5' * turn.in_line}"
        for turn in turns
    ]
    yield from _stage(3, "runtime", "run the prestart hooks", hooks or ["no prestart hook"])
    if any(turn.in_line for turn in turns):
        yield from _gpus(container)
    yield from _stage(6, "runtime", "answer init", ["HOOKS_DONE → runtime.fifo"])
    yield from _stage(7, "init", "pivot_root and exec", _last(container))


def _stage(number: int, actor: str, name: str, steps: Iterable[str]) -> Iterator[str]:
    yield f"{number}  {actor:<8} {name}"
    for step in steps:
        yield f"            {step.replace(str(_PID), 'PID')}"


def _first(container: Container) -> Iterator[str]:
    config = container.config
    for directory in cgroup_of(container).directories():
        yield f"mkdir {directory}"
    for name, limits in config.resources.items():
        if name != "devices":
            yield f"limit {name}: {jsonlite.dumps(limits)}"
    for rule in config.resources.get("devices") or ():
        access = f"{rule.get('type', 'a')} {rule.get('major', '*')}:{rule.get('minor', '*')}"
        yield f"devices.{'allow' if rule['allow'] else 'deny'} {access} {rule.get('access', '')}"
    new = [kind for kind in namespaces.FLAGS if config.new_namespace(kind) and kind != "cgroup"]
    for kind, path in config.namespaces.items():
        if path:
            yield f"setns {kind} {path}"
    yield f"clone3 {', '.join(new)}"
    yield build.root_mount(config, container.layer_paths(), container.directory).describe()
    yield from _described(s1_clone.plan(container))


def _described(plan: Iterable[Operation | Step]) -> Iterator[str]:
    return (line for operation in plan for line in operation.describe().splitlines())


def _gpus(container: Container) -> Iterator[str]:
    """Yield stages 4 and 5: the image's lowest layer is looked into, where the libraries go."""
    config = container.config
    argv = hook.in_line(config, {"pid": _PID, "bundle": config.bundle})
    if not argv:
        yield from _stage(4, "hook", "make arguments", ["no GPU was asked for"])
        return
    yield from _stage(4, "hook", "make arguments", [" ".join(("nvidia-container-cli", *argv))])
    root = Root.at(config.layers[0] if config.layers else config.rootfs)
    edits = inject.plan_edits(container, argv, root)
    root.close()
    rules = [f"devices.allow {rule}" for rule in edits.device_rules()]
    program = [edits.ldconfig] if edits.ldconfig else []
    name = "put the GPUs in" + " (SIMULATED)" * edits.simulated
    steps = [*_described(edits.steps), *program, *rules]
    yield from _stage(5, "cli", name, steps)


def _last(container: Container) -> Iterator[str]:
    config = container.config
    yield "pivot_root . ."
    for key, value in (config.linux.get("sysctl") or {}).items():
        yield f"sysctl {key}={value}"
    yield from _described(s7_exec.plan(container))
    for row in config.process.get("rlimits") or ():
        yield f"setrlimit {row['type']} {row['soft']} {row['hard']}"
    user = config.process.get("user") or {}
    yield f"setgid {user.get('gid', 0)}, setuid {user.get('uid', 0)}"
    names = (config.process.get("capabilities") or {}).get("effective") or ()
    yield f"capset {' '.join(names) or 'nothing'}"
    if config.process.get("noNewPrivileges"):
        yield "prctl PR_SET_NO_NEW_PRIVS"
    if config.linux.get("seccomp"):
        yield f"seccomp, by default {config.linux['seccomp']['defaultAction']}"
    yield f"chdir {config.process['cwd']}"
    yield f"execve {' '.join(config.process['args'])}"


def write(container: Container) -> None:
    """Write the plan to standard output, as the terminal may show it. Raises MinirunError."""
    os.write(1, "".join(f"{clean(line)}\n" for line in lines(container)).encode())
