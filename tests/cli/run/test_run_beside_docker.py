"""Sixty lines of `run` with minirun and with docker: exit status, output, and what inspect says.

What differs is in DIFFERENT and OF_CONFIG, with its reason.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from beside import Beside, Side
from cli.columns import Runtime
from conftest import Program

LINES = (
    ("", "echo hello"),
    ("", "sh -c 'exit 7'"),
    ("", "nosuchcommand"),
    ("", "/etc/passwd"),
    ("", "sh -c 'kill -9 $$'"),
    ("", "sh -c 'echo out; echo err >&2'"),
    ("-i", "cat"),
    ("-a stderr", "sh -c 'echo out; echo err >&2'"),
    ("-a stdout -a stderr", "echo both"),
    ("-e A=1 -e B -eC=3", "sh -c 'echo $A-$B-$C'"),
    ("--env A=x=y", "sh -c 'echo $A'"),
    ("-w /a/b", "pwd"),
    ("-w relative", "pwd"),
    ("-u 12345", "id -u"),
    ("-u 12345:54321", "id -u"),
    ("-u 0:54321", "id -g"),
    ("-u nosuch", "id"),
    ("--group-add 44 --group-add 45", "id -G"),
    ("--group-add users", "id -G"),
    ("--group-add nosuch", "id -G"),
    ("-h box", "hostname"),
    ("-h box --domainname example.org", "cat /proc/sys/kernel/domainname"),
    ("--uts host", "true"),
    ("--uts host -h box", "true"),
    ("--read-only", "touch /x"),
    ("--read-only --tmpfs /x", "touch /x/y"),
    ("--tmpfs /x:size=1m,mode=700", "sh -c 'df /x | tail -1; stat -c %a /x'"),
    ("--shm-size 3m", "sh -c 'df /dev/shm | tail -1'"),
    ("--shm-size big", "true"),
    ("--ipc none", "sh -c 'ls -d /dev/shm; mount | grep -c shm'"),
    ("--ipc none", "true"),
    ("--ipc shareable", "true"),
    ("--ipc shareable --shm-size 3m", "sh -c 'df /dev/shm | tail -1; stat -c %a /dev/shm'"),
    ("--ipc container:nosuch", "true"),
    ("--ipc container:", "true"),
    ("--ipc host --shm-size 3m", "sh -c 'grep -c shm /proc/mounts'"),
    ("--ipc nosuch", "true"),
    ("--pid host", "sh -c '[ $$ -gt 1 ] && echo $?'"),
    ("--pid nosuch", "true"),
    ("--cap-drop ALL", "grep CapEff /proc/self/status"),
    ("--cap-drop all --cap-add chown", "grep CapEff /proc/self/status"),
    ("--cap-add NET_ADMIN", "grep CapEff /proc/self/status"),
    ("--cap-add NOSUCH", "true"),
    ("--cap-add chown --cap-add CAP_CHOWN --cap-drop net_raw", "grep CapEff /proc/self/status"),
    ("--privileged", "sh -c 'grep -c Seccomp:.0 /proc/self/status'"),
    ("", "sh -c 'mount -t tmpfs t /tmp 2>/dev/null; echo $?'"),
    ("--security-opt no-new-privileges", "grep NoNewPrivs /proc/self/status"),
    ("--security-opt seccomp=unconfined", "grep Seccomp: /proc/self/status"),
    ("--security-opt nosuch=1", "true"),
    ("--ulimit nofile=99:100", "sh -c 'ulimit -n; ulimit -Hn'"),
    ("--ulimit nofile=100:99", "true"),
    ("--sysctl net.core.somaxconn=77", "cat /proc/sys/net/core/somaxconn"),
    ("--sysctl kernel.nosuch=1", "true"),
    ("--memory 64m", "true"),
    ("--memory 1x", "true"),
    ("--cpus 0", "true"),
    ("--cpus 0.5", "true"),
    ("--cpus 0.5 --cpu-quota 5000", "true"),
    ("--cpu-shares 512 --cpuset-cpus 0", "nproc"),
    ("--pids-limit 20", "true"),
    ("--oom-score-adj 99", "cat /proc/self/oom_score_adj"),
    ("--device /dev/zero:/dev/x:r", "sh -c 'head -c 3 /dev/x | wc -c; stat -c %t:%T /dev/x'"),
    ("--device /dev/nosuch", "true"),
    ("--device-cgroup-rule nonsense", "true"),
    ("--init", "cat /proc/1/comm"),
    ("--entrypoint echo", "-n a b"),
    ("--entrypoint ''", "echo x"),
    ("-v /nosuch/relative", "true"),
    ("-v relative/path:/x", "true"),
    ("--mount type=bind,src=/nosuch,dst=/x", "true"),
    ("--mount type=tmpfs,dst=/x,tmpfs-size=1m", "sh -c 'df /x | tail -1'"),
    ("--mount type=nosuch,dst=/x", "true"),
    ("--restart always --rm", "true"),
    ("--restart on-failure:1", "sh -c 'exit 2'"),
    ("--stop-signal NOSUCH", "true"),
    ("--log-driver nosuch", "true"),
    ("--nosuch", "true"),
    ("--name a/b", "true"),
)
DIFFERENT = {
    ("--device /dev/nosuch", "true"): "docker's 127 is for a command that is not found; 125 here",
    ("--privileged", "sh -c 'grep -c Seccomp:.0 /proc/self/status'"): (
        "dockerd itself has not every capability on a machine like this one"
    ),
    ("--restart on-failure:1", "sh -c 'exit 2'"): "docker's run ends with the first; here the last",
}
"""Lines whose status, output or fields are not docker's, and why."""
OF_CONFIG = {
    "--ipc host": "SecurityOpt: docker writes label=disable there by itself",
    "--pid host": "the same",
    "-u 12345": "User has the group too",
    "-u 0": "the same",
}
"""Flags whose fields of inspect are not docker's: then status and output alone are compared."""
FIELDS = (
    "{{.Path}} {{.Args}} {{.State.Status}} {{.State.ExitCode}} {{.RestartCount}}",
    "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{.HostConfig.CpuShares}}",
    "{{.HostConfig.CpusetCpus}} {{.HostConfig.OomScoreAdj}} {{.HostConfig.ReadonlyRootfs}}",
    "{{.HostConfig.Privileged}} {{.HostConfig.CapAdd}} {{.HostConfig.CapDrop}}",
    "{{.HostConfig.IpcMode}} {{.HostConfig.PidMode}} {{.HostConfig.UTSMode}}",
    "{{.HostConfig.ShmSize}} {{.HostConfig.GroupAdd}} {{.HostConfig.SecurityOpt}}",
    "{{.HostConfig.RestartPolicy.Name}} {{.HostConfig.RestartPolicy.MaximumRetryCount}}",
    "{{.Config.User}} {{.Config.WorkingDir}} {{.Config.Tty}} {{.Config.OpenStdin}}",
    "{{.HostConfig.NetworkMode}} {{range $k, $v := .NetworkSettings.Networks}}{{$k}}{{end}}",
    "{{range .Mounts}}{{.Type}} {{.Destination}} {{.RW}};{{end}}",
    "{{index .HostConfig `Tmpfs`}}",
)


def outcome(side: Side, flags: str, command: str) -> tuple[object, ...]:
    """Run a line; return its status, its output, whether it says something, and inspect's words."""
    words = ["run", "--name", "one", "--network=none", *shlex.split(flags), side.image]
    done = side.call(*words, *shlex.split(command), input="typed\n")
    shown = ""
    if done.returncode not in (125, 1):
        shown = side.call("inspect", "--format", "|".join(FIELDS), "one").stdout
    side.call("rm", "-f", "one")
    output = re.sub(r"^(tmpfs|shm)\s+", "tmpfs ", done.stdout, flags=re.M)
    fields = [_as_of_today(field) for field in shown.strip().split("|")]
    return done.returncode, output, bool(done.stderr), *fields


def updated(side: Side, flags: str) -> tuple[int, str, bool, str]:
    """Update a container; return the status, the output, whether it says something, and fields."""
    words = ("run", "-d", "--name", "one", "--network=none", "--memory=32m", side.image)
    side.call(*words, "sleep", "300")
    done = side.call("update", *flags.split(), "one")
    form = "{{.HostConfig.NanoCpus}} {{.HostConfig.Memory}} {{.HostConfig.RestartPolicy}}"
    shown = side.call("inspect", "--format", form, "one").stdout
    side.call("rm", "-f", "one")
    return done.returncode, done.stdout, bool(done.stderr), shown


def _as_of_today(field: str) -> str:
    """Write CapAdd and CapDrop as docker does since version 23; 20.10 has the user's words."""
    if not field.startswith(("true ", "false ")):
        return field

    def in_full(found: re.Match[str]) -> str:
        names = {re.sub("^(?:CAP_)?(?!ALL$)", "CAP_", name.upper()) for name in found[1].split()}
        return f"[{' '.join(sorted(names))}]"

    return re.sub(r"\[([^]]*)\]", in_full, field)


@pytest.mark.parametrize(("flags", "inside"), LINES)
def test_a_line_does_the_same(beside: Beside, flags: str, inside: str) -> None:
    ours, theirs = beside.both(outcome, flags, inside)
    if (flags, inside) in DIFFERENT:
        assert ours != theirs, "it is the same by now"
    elif any(flags.find(word) >= 0 for word in OF_CONFIG):
        assert ours[:3] == theirs[:3], beside.explained(outcome, flags, inside)
    else:
        assert ours == theirs, beside.explained(outcome, flags, inside)


@pytest.mark.parametrize(
    "flags",
    [
        "--cpus 0.5", "--cpus 0", "--cpus x", "--memory 64m --memory-swap -1", "--memory 1x",
        "--memory 0", "--pids-limit x", "--pids-limit 20", "--cpu-shares 0", "--cpu-shares x",
        "--cpu-quota x", "--restart nosuch", "--restart on-failure:2", "",
    ],
)  # fmt: skip
def test_an_update_ends_as_docker_s(beside: Beside, flags: str) -> None:
    beside.same(updated, flags)


def test_an_update_of_a_bundle_s_container_ends_as_runc_s(minirun: Program, tmp_path: Path) -> None:
    runtime = Runtime(minirun.argv(), tmp_path, f"c-{os.getpid()}")
    runtime.config()
    runtime.stopped()
    for flags in ("--memory 1x", "--pids-limit x", "--nosuch"):
        assert minirun("update", *flags.split(), runtime.name).returncode == 1, flags
    minirun("delete", "-f", runtime.name)
