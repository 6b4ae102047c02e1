"""What must hold of a learner's program, level by level. Each check starts it, and asks the kernel.

A check is a function of a TriedProgram that raises NotYet with the key of a finding (levels.toml).
Those of a level are in the order in which they can be made to hold; the first that does not is
reported.

    process      0, and what holds on every level
    namespaces   1
    root         2
    handshake    3
    hooks        4
    gpus         5
    limits       6
    privileges   7
    network      8
    runtime      9
"""

from __future__ import annotations

from collections.abc import Callable

from minirun.core.kernel.mountinfo import Mount
from minirun.faces.teach.levels import facts
from minirun.faces.teach.levels.checks import (
    gpus,
    handshake,
    hooks,
    limits,
    namespaces,
    network,
    privileges,
    process,
    root,
    runtime,
)
from minirun.faces.teach.levels.material import HOME
from minirun.faces.teach.levels.tried import NotYet, TriedProgram

Check = Callable[[TriedProgram], None]
_LONGEST = 300
"""The most of what a program has said that a finding has, in characters."""
_EACH: tuple[Check, ...] = (process.it_runs, process.exit_statuses)
_ROOT: tuple[Check, ...] = (root.layers_in_order, root.root_of_the_namespace)
_GPUS: tuple[Check, ...] = (
    gpus.nodes_are_there, gpus.libraries_are_there, gpus.rules_hold, gpus.gpus_are_listed,
    gpus.no_gpu_uninvited,
)  # fmt: skip
CHECKS: tuple[tuple[Check, ...], ...] = (
    (process.it_waits, *_EACH, process.in_path, process.killed, process.signals),
    (*_EACH, namespaces.new_namespaces, namespaces.own_proc, namespaces.mounts_stay_inside,
     namespaces.own_hostname, process.killed),
    (*_EACH, *_ROOT, root.writes_stay_apart, root.devices_are_there, namespaces.own_proc,
     namespaces.mounts_stay_inside, root.nothing_is_left),
    (process.it_runs, *_ROOT, handshake.errors_are_one_line, process.exit_statuses,
     handshake.init_dies, handshake.runtime_dies, handshake.no_descriptor_leaks,
     root.nothing_is_left),
    (*_EACH, *_ROOT, hooks.config_holds, hooks.binds_are_made, hooks.hooks_take_part,
     hooks.hooks_can_fail, handshake.init_dies, root.nothing_is_left),
    (*_EACH, *_GPUS, hooks.hooks_take_part, limits.cgroups_are_removed, root.nothing_is_left),
    (*_EACH, limits.limits_are_written, limits.fork_is_refused, limits.oom_is_said,
     limits.cgroups_are_removed, *_GPUS),
    (*_EACH, privileges.capabilities_are_few, privileges.privileges_stay_away,
     privileges.user_is_taken, privileges.paths_are_hidden, privileges.profile_is_followed,
     gpus.gpus_are_listed),
    (*_EACH, network.network_is_there, network.packets_are_translated, network.port_leads_in,
     network.containers_differ, network.links_are_removed, privileges.capabilities_are_few),
    (runtime.created_waits, runtime.it_is_killed_and_deleted, runtime.runtime_runs,
     runtime.force_ends_it, runtime.terminal_is_sent, hooks.hooks_take_part, hooks.hooks_can_fail,
     runtime.gpus_without_an_engine, gpus.rules_hold, privileges.profile_is_followed),
)  # fmt: skip
"""The checks of each level, by its number."""


def first_finding(program: TriedProgram) -> dict[str, str]:
    """Return the first thing that does not hold; empty if all holds.

    Its "key" and "detail" are those of NotYet, "held" is how many checks hold before it.

    A mount that has appeared outside breaks much else: it is reported first.
    """
    before = facts.mounts()
    for held, check in enumerate(CHECKS[program.number]):
        try:
            check(program)
        except (OSError, NotYet) as error:
            finding = _finding(error, before)
            return {"key": finding.key, "detail": finding.detail[:_LONGEST], "held": str(held)}
    return {}


def _finding(error: OSError | NotYet, before: dict[int, Mount]) -> NotYet:
    """Return what has made a check fail. Raises the OSError if it was none of the program's."""
    if gone := facts.unmounted():
        return NotYet("host-unmounted", gone)
    if isinstance(error, OSError):
        raise error
    spread = [where for where in facts.new_mounts(before) if not where.startswith(str(HOME))]
    if spread and error.key != "mounts-spread":
        return NotYet("mounts-spread", spread[0])
    return error
