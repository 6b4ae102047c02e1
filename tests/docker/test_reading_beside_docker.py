"""The same containers with minirun and with docker: what templates, filters and verbs print."""

from __future__ import annotations

import re
import shlex

import pytest

from beside import Beside, Side

FLAGS = (
    "--network=none --label a=1 --label b=2 -e A=1 --memory 64m --cpus 1.5 --tmpfs /x -w /tmp "
    "--ulimit nofile=99:100 --read-only --hostname h --domainname d --stop-signal INT"
)


def prepare(side: Side) -> None:
    """A container that runs, and one that has ended with 3."""
    script = "echo hi; echo err >&2; exec sleep 300"
    done = side.call("run", "-d", "--name", "web", *FLAGS.split(), side.image, "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    words = ("run", "--name", "gone", "--network=none", side.image, "sh", "-c", "exit 3")
    assert side.call(*words).returncode == 3


def outcome(side: Side, *words: str) -> tuple[int, str, str]:
    """The status, what is printed, and the name of the message: docker puts words before it."""
    done = side.call(*words)
    known = re.search(r"template: :\d+(?::\d+)?", done.stderr)
    return done.returncode, done.stdout.strip(), known[0] if known else ""


def labels(side: Side, *words: str) -> list[str]:
    """docker has them in no order: it goes through a map of Go's."""
    return sorted(side.call(*words).stdout.strip().split(","))


def status(side: Side, *words: str) -> int:
    return side.call(*words).returncode


@pytest.mark.parametrize(
    "form",
    [
        "{{.Name}} {{.State.Status}} {{.State.Running}} {{.State.ExitCode}} {{.RestartCount}}",
        "{{.Path}} {{.Args}} {{len .Args}} {{join .Args `|`}}",
        "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{.HostConfig.CpuShares}}",
        "{{.HostConfig.NetworkMode}} {{.HostConfig.Privileged}} {{.HostConfig.ReadonlyRootfs}}",
        "{{.HostConfig.RestartPolicy.Name}} {{.HostConfig.ShmSize}} {{.HostConfig.AutoRemove}}",
        "{{range .HostConfig.Ulimits}}{{.Name}}={{.Soft}}:{{.Hard}}{{end}}",
        "{{range $k, $v := .HostConfig.Tmpfs}}{{$k}}{{end}}",
        "{{.Config.Hostname}} {{.Config.Domainname}} {{.Config.Tty}} {{.Config.OpenStdin}}",
        "{{.Config.WorkingDir}} {{.Config.StopSignal}} {{.Config.User}}|",
        "{{.Config.Labels}} {{.Config.Labels.a}} {{.Config.Labels.nosuch}}",
        "{{index .Config.Labels `b`}}|{{index .Config.Labels `nosuch`}}|",
        "{{range $k, $v := .Config.Labels}}{{$k}}={{$v}};{{else}}none{{end}}",
        "{{range .Config.Env}}{{if eq . `A=1`}}yes{{end}}{{end}}",
        "{{range .Config.Cmd}}<{{.}}>{{end}}", "{{json .Config.Cmd}}", "{{json .Config.Labels}}",
        "{{.State.FinishedAt}}", "{{with .NetworkSettings.IPAddress}}{{.}}{{else}}none{{end}}",
        "{{range $k, $v := .NetworkSettings.Networks}}{{$k}}{{end}}", "{{.NetworkSettings.Ports}}",
        "{{upper .Name}} {{title `abc`}} {{truncate .Name 2}} {{pad .Name 1 2}}|",
        "{{printf `%s %q %v %d` .Name .Name .Config.Cmd .State.ExitCode}}",
        "{{if and .State.Running (eq .State.ExitCode 0)}}a{{else if .Name}}b{{end}}",
        "{{$x := .Name}}{{$x}} {{$.Name}} {{- ` x ` -}} y {{/* nothing */}}|",
        "{{", "{{.Name", "{{nosuch}}", "{{if}}a{{end}}", "{{end}}", "{{$y}}", "{{if .Name}}",
        "{{.State.Nosuch}}", "{{.Nosuch}}", "{{index .Config.Cmd 99}}", "{{len 3}}",
        "{{range .Name}}x{{end}}", "{{.Name.Foo}}", "{{eq .Name 3}}",
    ],
)  # fmt: skip
def test_inspect_prints_the_same(beside: Beside, form: str) -> None:
    beside.same(outcome, "inspect", "--format", form, "web")


@pytest.mark.parametrize(
    "words",
    [
        "ps -a --format {{.Names}}", "ps --format {{.Names}}|{{.State}}|{{.Networks}}|",
        "ps -a --format {{.Names}}:{{.State}}:{{.LocalVolumes}}:{{.Ports}}:",
        "ps -a --format '{{.Label `a`}}|{{.Label `c`}}|'", "ps -a --format {{.Label`a`}}",
        "ps -n 1 --format {{.Names}}",
        "ps -l --format {{.Names}}", "ps -n 0 --format {{.Names}}",
        "ps -a -f status=exited --format {{.Names}}", "ps -f status=exited --format {{.Names}}",
        "ps -a -f exited=3 --format {{.Names}}", "ps -a -f exited=0 --format {{.Names}}",
        "ps -a -f name=^/we --format {{.Names}}", "ps -a -f name=e --format {{.Names}}",
        "ps -a -f label=a --format {{.Names}}", "ps -a -f label=a=2 --format {{.Names}}",
        "ps -a -f label=a=1 -f label=b --format {{.Names}}",
        "ps -a -f before=gone --format {{.Names}}", "ps -a -f since=web --format {{.Names}}",
        "ps -a -f network=none --format {{.Names}}", "ps -a -f health=none --format {{.Names}}",
        "ps -a --format {{", "ps -a --format {{nosuch}}", "wait gone", "logs --since 10m web",
        "logs --until 2020-01-01 web", "logs --details web", "stats --no-stream --format {{.Name}}",
        "events --since 10m --until 0s -f event=die -f container=gone "
        "--format {{.Action}}|{{.Actor.Attributes.exitCode}}|{{.Type}}",
    ],
)  # fmt: skip
def test_lists_are_the_same(beside: Beside, words: str) -> None:
    beside.same(outcome, *shlex.split(words))


def test_labels_are_the_same(beside: Beside) -> None:
    beside.same(labels, "ps", "--format", "{{.Labels}}")


@pytest.mark.parametrize(
    "words",
    [
        "ps -f nosuch=1", "ps -f name", "ps -f status=foo", "ps -f exited=x", "ps -f health=foo",
        "ps -f before=nosuch", "ps -f publish=abc", "ps -n x", "inspect nosuch", "logs nosuch",
        "inspect --type foo web", "inspect --type image web", "inspect --type container nosuch",
        "logs --since foo web", "logs --until foo web", "wait nosuch", "top gone", "top nosuch",
        "top web -o comm", "stats --no-stream nosuch", "stats --no-stream --format {{.Nosuch}} web",
        "stats --no-stream --format {{ web", "rename web gone", "rename nosuch x", "rename web",
        "rename web a/b", "rename web web", "info --format {{", "info --format {{.Nosuch}}",
        "version --format {{", "version --format {{.Nosuch}}", "info extra", "version extra",
        "events --since foo", "events --until foo", "events -f foo --until 0s", "ps --nosuch",
        "events --format {{ --until 0s", "container nosuch", "container prune -f --filter foo=1",
        "container prune -f --filter until=foo", "system prune -f extra",
        "system prune -f --volumes --filter until=1h", "port web 81",
    ],
)  # fmt: skip
def test_the_exit_status_of_a_mistake_is_docker_s(beside: Beside, words: str) -> None:
    ours = beside.minirun(*words.split())
    theirs = beside.theirs(status, *words.split())
    assert ours.returncode == theirs != 0, beside.explained(status, *words.split())
    assert ours.stderr.startswith("minirun: ") and ours.stderr.count("\n") == 1
