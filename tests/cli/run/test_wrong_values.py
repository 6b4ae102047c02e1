"""Wrong values of the verbs that read: one line each, which names flag, value and what is right."""

from __future__ import annotations

import pytest

from conftest import Program

NAME = "NAME=VALUE"
TIME = "2026-01-02T03:04:05Z, seconds since 1970, or how long ago: 10m, 1h30m"
WRONG = [
    ("ps --filter name", 125, "--filter 'name': not NAME=VALUE", "one of ancestor, before, exited"),
    ("ps --filter nosuch=1", 1, "--filter 'nosuch=1': no such filter", "one of ancestor, before"),
    ("ps -f status=foo", 1, "--filter 'status=foo'", "one of created, restarting, running"),
    ("ps -f health=foo", 1, "--filter 'health=foo'", "one of starting, healthy, unhealthy, none"),
    ("ps -f exited=x", 1, "--filter 'exited=x'", "an exit status, such as 137"),
    ("ps -f name=[", 1, "--filter 'name=['", "a regular expression, such as ^web"),
    ("ps -f id=(", 1, "--filter 'id=('", "a regular expression, such as ^web"),
    ("ps -f publish=abc", 1, "--filter 'publish=abc'", "80, 53/udp, 8000-8003/tcp"),
    ("ps -f publish=70000", 1, "--filter 'publish=70000'", "80, 53/udp, 8000-8003/tcp"),
    ("ps -f expose=80/icmp", 1, "--filter 'expose=80/icmp'", "80, 53/udp, 8000-8003/tcp"),
    ("ps -f expose=90-80", 1, "--filter 'expose=90-80'", "80, 53/udp, 8000-8003/tcp"),
    ("ps -f before=nosuch", 1, "no such container nosuch", "minirun ps -a lists all"),
    ("ps -f since=nosuch", 1, "no such container nosuch", "minirun ps -a lists all"),
    ("ps -n x", 125, "--last 'x'", "a number of containers, such as 3"),
    ("ps --last 1.5", 125, "--last '1.5'", "a number of containers, such as 3"),
    ("ps --format {{", 1, "template parsing error: template: :1: unclosed action", ""),
    ("ps --format {{nosuch}}", 1, 'function "nosuch" not defined', ""),
    ("ps -a --format {{.Nosuch}}", 1, "<.Nosuch>: can't evaluate field", "one of Command, "),
    ("ps -a --format {{.Label}}", 1, "<.Label>: wrong arguments for Label", ""),
    ("ps --nosuch", 125, "unknown flag: --nosuch", "minirun ps --help"),
    ("ps --all=maybe", 125, "'maybe' for --all", "true or false"),
    ("inspect --format {{ c", 64, ":1: unclosed action", ""),
    ("inspect --format {{end}} c", 64, ":1: unexpected {{end}}", ""),
    ("inspect --format {{.State.Nosuch}} c", 1, ":1:8:", "one of Status, Running, Paused"),
    ("inspect --format {{.Name.x}} c", 1, "can't evaluate field x in type string", ""),
    ("inspect --type foo c", 1, "--type 'foo'", "one of container, image, network"),
    ("inspect --type image c", 1, "no such image: c", "minirun images lists what there is"),
    ("inspect --type network c", 1, "network c not found", "minirun network ls lists what there"),
    ("inspect --format {{.Id}} nosuch", 1, "no such object: nosuch", "minirun ps -a, images"),
    ("inspect --format {{.Id}} ../c", 1, "no such object: ../c", "minirun ps -a, images"),
    ("inspect --devices --format {{.Id}} c", 125, "--devices: no effect", "one of them"),
    ("logs --since foo c", 1, "--since 'foo'", TIME),
    ("logs --until 2026-02-31 c", 1, "--until '2026-02-31'", TIME),
    ("logs --since 10x c", 1, "--since '10x'", TIME),
    ("logs --tail x c", 1, "--tail 'x'", "a number of lines, or all"),
    ("logs nosuch", 1, "container 'nosuch' does not exist", "minirun ps -a lists all"),
    ("events --since foo", 1, "--since 'foo'", TIME),
    ("events --until 99h99 --since 1m", 1, "--until '99h99'", TIME),
    ("events --filter foo --until 0s", 125, "--filter 'foo': not NAME=VALUE", "one of container, "),
    ("events --filter a=b --until 0s", 1, "--filter 'a=b': no such filter", "one of container, "),
    ("events --format {{ --until 0s", 64, ":1: unclosed action", ""),
    ("wait nosuch", 1, "container 'nosuch' does not exist", "minirun ps -a lists all"),
    ("top nosuch", 1, "container 'nosuch' does not exist", "minirun ps -a lists all"),
    ("top c", 1, "container c is not running", "minirun ps lists those that are"),
    ("stats --no-stream nosuch", 1, "container 'nosuch' does not exist", "minirun ps -a lists"),
    ("stats --format {{.X", 1, ":1: unclosed action", ""),
    ("stats --no-stream -a --format {{.X}}", 1, "can't evaluate field X", "one of Container, ID, "),
    ("rename c", 1, '"minirun rename" requires exactly 2 arguments', "minirun rename --help"),
    ("rename c a/b", 1, "invalid container name 'a/b'", "letters, digits, '_'"),
    ("rename nosuch b", 1, "container 'nosuch' does not exist", "minirun ps -a lists all"),
    ("info --format {{.Nosuch}}", 1, "can't evaluate field Nosuch", "one of Containers, "),
    ("info extra", 1, '"minirun info" needs no argument, got 1', ""),
    ("version --format {{", 64, ":1: unclosed action", ""),
    ("version extra", 1, '"minirun version" needs no argument, got 1', ""),
    ("container nosuch", 1, "unknown command 'container nosuch'", "one of "),
    ("container ls extra", 1, '"minirun container ls" needs no argument, got 1', ""),
    ("container prune -f --filter foo=1", 1, "--filter 'foo=1'", "one of label, until"),
    ("container prune -f --filter until=foo", 1, "--filter until 'foo'", TIME),
    ("system nosuch", 1, "unknown command 'system nosuch'", "one of df, events, info, prune"),
    ("system prune -f extra", 1, '"minirun system prune" needs no argument, got 1', ""),
    ("completion tcsh", 1, "invalid shell 'tcsh'", "minirun completion bash|zsh|fish"),
    ("completion", 1, "completion needs a shell", "minirun completion bash|zsh|fish"),
    ("network inspect --format {{ bridge", 64, ":1: unclosed action", ""),
    ("image inspect --format {{.Nosuch}} busybox", 1, "map has no entry for key", "one of Id, "),
]  # fmt: skip


@pytest.fixture(scope="module")
def one(command: str, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A container that has ended, for all of them: none changes it."""
    program = Program(command, tmp_path_factory.mktemp("wrong") / "containers")
    assert program("run", "--name", "c", "busybox", "echo", "hi").returncode == 0
    yield program  # type: ignore[misc]
    program.clean()


@pytest.mark.parametrize(("words", "status", "what", "hint"), WRONG)
def test_one_line_says_what_is_wrong(
    one: Program, words: str, status: int, what: str, hint: str
) -> None:
    done = one(*words.split())
    assert done.stderr.startswith("minirun: "), done.stderr
    assert done.stderr.count("\n") == 1
    assert what in done.stderr and hint in done.stderr, done.stderr
    assert done.returncode == status
    assert done.stdout in ("", "\n", "[]\n"), "nothing but docker's empty line, or list"


def test_no_control_character_of_a_value_is_printed(one: Program) -> None:
    evil = "\x1b[2J\u202e\x9b\nx"
    for words in (
        ("ps", "-f", evil), ("ps", "-f", f"{evil}=1"), ("ps", "-f", f"status={evil}"),
        ("ps", "-n", evil), ("ps", "--format", f"{{{{{evil}}}}}"), ("logs", "--since", evil, "c"),
        ("inspect", "--type", evil, "c"), ("inspect", "-f", "x", evil), ("wait", evil),
        ("rename", "c", evil), ("container", evil), ("completion", evil), ("stats", evil),
        ("ps", "--format", f'{{{{.Label "{evil}'), ("ps", "-f", f"name=[{evil}"),
    ):  # fmt: skip
        done = one(*words)
        assert done.returncode != 0, words
        assert done.stderr.count("\n") == 1 and done.stderr.rstrip("\n").isprintable(), words
