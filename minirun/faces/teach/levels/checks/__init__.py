"""What must hold of a learner's program, level by level. Each check starts it, and asks the kernel.

A check is a function of a TriedProgram that raises NotYet with the key of a finding (levels.toml).
What a level promises, the levels above it promise too: PROMISES has it once, with where it begins.

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
    entering     10
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from minirun.core.kernel.mountinfo import Mount
from minirun.faces.teach.levels import facts, tried
from minirun.faces.teach.levels.checks import (
    entering,
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
from minirun.faces.teach.levels.tried import NotYet, TriedProgram
from minirun.faces.teach.pace import pace

Check = Callable[[TriedProgram], None]
_LONGEST = 300
"""The most of what a program has said that a finding has, in characters."""
_CHECK_SECONDS, _AFTER_FIRST = 40, 60.0
"""What a check may take; what all may take once one has failed."""
_MOST_HANGS = 2
_GPUS = 5
"""The level whose hook enters init's mount namespace."""
WITHHELD = "-"
"""The key of a check that could not be asked."""


class Promise(NamedTuple):
    """What must hold of a program, from one level on."""

    check: Check
    since: int
    until: int = 10
    """The last level: an engine does it at level 9, or the words are different there."""

    @property
    def name(self) -> str:
        """Return its name in the table of texts."""
        return f"{self.check.__module__.rpartition('.')[2]}.{self.check.__name__}"


PROMISES = (
    Promise(runtime.created_waits, 9),
    Promise(runtime.it_is_killed_and_deleted, 9),
    Promise(runtime.force_ends_it, 9),
    Promise(runtime.runtime_runs, 9),
    Promise(process.it_waits, 0),
    Promise(process.it_runs, 0),
    Promise(process.exit_statuses, 0),
    Promise(process.in_path, 0),
    Promise(process.it_forks, 0),
    Promise(process.killed, 0),
    Promise(process.signals, 0),
    Promise(namespaces.new_namespaces, 1),
    Promise(namespaces.own_proc, 1),
    Promise(namespaces.mounts_stay_inside, 1),
    Promise(namespaces.own_hostname, 1),
    Promise(root.layers_in_order, 2),
    Promise(root.root_of_the_namespace, 2),
    Promise(root.writes_stay_apart, 2, 8),
    Promise(root.devices_are_its_own, 2),
    Promise(root.devices_are_there, 2),
    Promise(root.sys_is_read_only, 2),
    Promise(root.nothing_is_left, 2),
    Promise(root.nothing_is_left_of_two, 2),
    Promise(handshake.errors_are_one_line, 3),
    Promise(handshake.init_dies, 3),
    Promise(handshake.runtime_dies, 3, 8),
    Promise(handshake.init_waits, 3),
    Promise(handshake.no_descriptor_leaks, 3),
    Promise(root.nothing_is_left_of_a_failure, 3),
    Promise(hooks.config_holds, 4),
    Promise(hooks.namespaces_are_the_bundles, 4),
    Promise(hooks.binds_are_made, 4),
    Promise(hooks.hooks_take_part, 4),
    Promise(hooks.hooks_see_all_mounts, 4),
    Promise(hooks.all_hooks_run, 4),
    Promise(hooks.hooks_can_fail, 4),
    Promise(hooks.hooks_end_in_time, 4),
    Promise(gpus.nodes_are_there, 5),
    Promise(gpus.libraries_are_there, 5),
    Promise(gpus.rules_hold, 5),
    Promise(gpus.gpus_are_listed, 5),
    Promise(gpus.gpus_are_named_by_uuid, 5),
    Promise(gpus.no_gpu_uninvited, 5),
    Promise(limits.cgroups_are_removed, 5),
    Promise(limits.limits_are_written, 6),
    Promise(limits.fork_is_refused, 6),
    Promise(limits.memory_is_refused, 6),
    Promise(limits.oom_is_said, 6, 8),
    Promise(privileges.capabilities_are_few, 7),
    Promise(privileges.privileges_stay_away, 7),
    Promise(privileges.user_is_taken, 7),
    Promise(privileges.user_ends_with_the_runtime, 7, 8),
    Promise(privileges.paths_are_hidden, 7),
    Promise(privileges.masked_paths_are_read_only, 7),
    Promise(privileges.rlimits_are_set, 7),
    Promise(privileges.profile_is_followed, 7),
    Promise(privileges.profile_asks_arguments, 7),
    Promise(privileges.filter_without_no_new_privs, 7),
    Promise(handshake.callers_descriptors_are_closed, 7),
    Promise(network.network_is_there, 8, 8),
    Promise(network.packets_are_translated, 8, 8),
    Promise(network.port_leads_in, 8, 8),
    Promise(network.only_its_port_leads_in, 8, 8),
    Promise(network.containers_differ, 8, 8),
    Promise(network.others_are_left_alone, 8, 8),
    Promise(network.links_are_removed, 8, 8),
    Promise(runtime.output_is_creates, 9),
    Promise(runtime.signals_arrive_as_sent, 9),
    Promise(runtime.roots_are_apart, 9),
    Promise(runtime.errors_are_logged, 9),
    Promise(runtime.cgroup_is_where_asked, 9),
    Promise(runtime.namespace_is_joined, 9),
    Promise(runtime.late_hooks_run, 9),
    Promise(runtime.terminal_is_sent, 9),
    Promise(runtime.gpus_without_an_engine, 9),
    Promise(entering.it_is_executed, 10),
    Promise(entering.it_is_in_the_namespaces, 10),
    Promise(entering.it_is_in_the_cgroups, 10),
    Promise(entering.config_is_followed, 10),
    Promise(entering.privileges_are_the_containers, 10),
    Promise(entering.no_descriptor_is_handed_on, 10),
    Promise(entering.process_file_is_followed, 10),
    Promise(entering.it_can_be_left, 10),
    Promise(entering.stopped_is_refused, 10),
)
"""All of them, in the order in which they can be made to hold."""


TOP = max(each.since for each in PROMISES)
"""The last level."""


def promises(number: int) -> list[Promise]:
    """Return those of a level: its own, and all that lower levels have promised."""
    return [each for each in PROMISES if each.since <= number <= each.until]


def results(program: TriedProgram, *, first: bool = False) -> list[list[str]]:
    """Return what came of each promise of the level: the key of its finding, and the detail.

    The key is "" of one that holds, "-" of one that could not be asked: nothing runs, a part is not
    written, time is over; or, with `first`, another does not hold.

    A mount that has appeared outside breaks much else: it is reported in place of that.
    """
    pace()  # before a program of the learner's runs beside it
    before, found = facts.mounts(), list[list[str]]()
    end, hangs = 0.0, 0
    for promise in promises(program.number):
        is_late = end and time.monotonic() > end
        if end and (first or is_late or hangs >= _MOST_HANGS or found[0][0] or facts.unmounted()):
            found.append([WITHHELD, ""])
            continue
        key, detail = asked(program, promise, before)
        if end and key == "not-written":
            key, detail = WITHHELD, ""
        hangs += key == "hangs"
        if key:
            end = end or time.monotonic() + _AFTER_FIRST * pace()
            with suppress(OSError):  # it may have unmounted /proc, too
                tried.kill_others()
        found.append([key, detail[:_LONGEST]])
    return found


def asked(program: TriedProgram, promise: Promise, before: dict[int, Mount]) -> tuple[str, str]:
    """Return the finding of a check, and its detail; two times "" if it holds. Raises OSError.

    `before`: the mounts of the sandbox before the program was started for the first time.
    """

    def over(_number: int, _frame: object) -> None:
        raise NotYet("hangs", promise.name)

    signal.signal(signal.SIGALRM, over)
    signal.alarm(int(_CHECK_SECONDS * pace()))
    try:
        promise.check(program)
    except (OSError, NotYet) as error:
        finding = _finding(error, before, promise.since)
        return finding.key, finding.detail
    finally:
        signal.alarm(0)
    return "", ""


def _finding(error: OSError | NotYet, before: dict[int, Mount], level: int) -> NotYet:
    """Return what has made a check of a level's promise fail.

    Raises the OSError if it was none of the program's.
    """
    if gone := facts.unmounted():
        return NotYet("host-unmounted", gone)
    if isinstance(error, OSError):
        raise error
    spread = facts.new_mounts(before)
    if spread and error.key != "mounts-spread":
        return NotYet("gpu-outside" if level == _GPUS else "mounts-spread", spread[0])
    return error
