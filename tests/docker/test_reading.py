"""docker's verbs that read, on real containers: ps, inspect, logs, events."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import time
from collections.abc import Iterator

import pytest

from conftest import STORE, Program, wait_until
from minirun.core.keeping.container_record import ContainerRecord
from minirun.core.keeping.settings import Settings
from minirun.docker.docker_events import Watcher
from minirun.running import listing
from rootfs_tools.cli.image_inspect import inspected


def good(program: Program, *words: str) -> str:
    done = program(*words)
    assert (done.returncode, done.stderr) == (0, ""), words
    return done.stdout


@pytest.fixture
def two(minirun: Program) -> Iterator[Program]:
    """A container that runs, and one that has ended with 3."""
    flags = "-e A=1 --memory 64m --cpus 1.5 -v /etc:/mnt:ro --tmpfs /x --ulimit nofile=99:100"
    more = "--cap-add NET_ADMIN --cap-drop CHOWN -w /tmp --hostname h --read-only"
    script = "echo hi; echo err >&2; exec sleep 300"
    good(minirun, "run", "-d", "--name", "web", *flags.split(), *more.split(), "busybox",
         "sh", "-c", script)  # fmt: skip
    assert minirun("run", "--name", "gone", "busybox", "sh", "-c", "exit 3").returncode == 3
    wait_until(lambda: (minirun.directory("web") / "log.json").read_text().count("\n") == 2)
    yield minirun


def on_terminal(program: Program, *words: str) -> str:
    """What a command prints on a terminal, with a terminal's line ends."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(program.argv(*words), stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        text = b""
        while True:
            try:
                text += os.read(ours, 1 << 16)
            except OSError:  # EIO: the command has ended
                break
    os.close(ours)
    return text.decode()


def test_inspect_prints_the_page_on_a_terminal_alone(two: Program) -> None:
    document = json.loads(good(two, "inspect", "--type", "container", "web"))
    assert json.loads(good(two, "inspect", "web")) == document
    page = good(two, "inspect", "--text", "web")
    assert page.startswith("web: running")
    assert on_terminal(two, "inspect", "web").startswith("web: running")
    assert json.loads(on_terminal(two, "inspect", "--format", "json", "web")) == document
    names = [row.get("Name", row.get("RepoTags")) for row in json.loads(
        on_terminal(two, "inspect", "web", "busybox"))]  # fmt: skip
    assert names == ["/web", ["busybox:latest"]]
    image = json.loads(on_terminal(two, "inspect", "busybox"))
    assert image == json.loads(good(two, "inspect", "busybox"))
    assert image == json.loads(good(two, "image", "inspect", "busybox"))
    for words in (("--text", "--format", "json", "web"), ("--text", "--json", "web")):
        assert "no effect" in two("inspect", *words).stderr
    assert two("inspect", "--text", "web", "gone").returncode == 1
    done = two("inspect", "nosuch")
    assert (done.returncode, done.stdout) == (1, "[]\n")
    assert done.stderr.startswith("minirun: no such object: nosuch")


def test_inspect_has_docker_s_document(two: Program) -> None:
    def shown(form: str, name: str = "web") -> str:
        return good(two, "inspect", "--format", form, name).rstrip("\n")

    record = json.loads((two.directory("web") / "state.json").read_text())
    document = json.loads(shown("{{json .}}"))
    assert json.loads(shown("json")) == [document]
    assert json.loads(good(two, "inspect", "--type", "container", "web")) == [document]
    state = document["State"]
    assert (state["Status"], state["Running"], state["Pid"]) == ("running", True, record["pid"])
    assert record["created"] < state["StartedAt"] and state["FinishedAt"].startswith("0001")
    assert document["Id"] == two.id("web") != "web" and len(document["Id"]) == 64
    assert (document["Name"], document["Path"]) == ("/web", "sh")
    assert document["Image"] == inspected(STORE, "busybox")["Id"]
    host, config = document["HostConfig"], document["Config"]
    assert (host["Memory"], host["NanoCpus"], host["PidsLimit"]) == (64 << 20, 1_500_000_000, 2048)
    assert (host["CapAdd"], host["CapDrop"]) == (["CAP_NET_ADMIN"], ["CAP_CHOWN"])
    assert (host["Binds"], list(host["Tmpfs"])) == (["/etc:/mnt:ro"], ["/x"])
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["Privileged"]) == (
        "none",
        True,
        False,
    )
    assert host["Ulimits"] == [{"Name": "nofile", "Hard": 100, "Soft": 99}]
    assert (config["Hostname"], config["WorkingDir"], config["Tty"]) == ("h", "/tmp", False)
    assert "A=1" in config["Env"] and len({e.partition("=")[0] for e in config["Env"]}) == len(
        config["Env"]
    )
    (bind,) = [row for row in document["Mounts"] if row["Type"] == "bind"]
    assert (bind["Source"], bind["Destination"], bind["RW"]) == ("/etc", "/mnt", False)
    assert shown("{{.State.Status}} {{.State.ExitCode}} {{.State.Running}}", "gone") == (
        "exited 3 false"
    )
    ended = json.loads((two.directory("gone") / "state.json").read_text())["finished"]
    assert shown("{{.State.FinishedAt}}", "gone") == ended


def test_inspect_counts_bytes(minirun: Program) -> None:
    minirun("run", "--name", "c", "busybox", "sh", "-c", "head -c 5000 /dev/zero > /f; ln /f /g")
    form = "{{.SizeRw}} {{.SizeRootFs}}"
    own, whole = map(int, good(minirun, "inspect", "-s", "-f", form, "c").split())
    assert own == 5000
    layers = json.loads((minirun.directory("c") / "state.json").read_text())["choices"]["layers"]
    find = ["find", *layers, "-type", "f", "-printf", "%i %s\n"]
    lines = set(subprocess.run(find, capture_output=True, text=True, check=True).stdout.split("\n"))
    assert whole - own == sum(int(line.split()[1]) for line in lines if line)
    assert "5kB (virtual" in good(minirun, "ps", "-as")


def test_inspect_of_images_networks_and_nothing(two: Program) -> None:
    assert good(two, "inspect", "--format", "{{.RepoTags}}", "busybox") == "[busybox:latest]\n"
    done = two("inspect", "--format", "{{.Id}}", "nosuch", "web")
    assert (done.returncode, done.stdout) == (1, f"{two.id('web')}\n")
    assert done.stderr.startswith("minirun: no such object: nosuch (")
    good(two, "volume", "create", name := f"v-{os.getpid()}")
    assert good(two, "inspect", "--type", "volume", "-f", "{{.Name}}", name) == f"{name}\n"
    assert good(two, "inspect", "-f", "{{.Driver}}", name) == "local\n"
    good(two, "volume", "rm", name)
    for kind in ("container", "image", "network", "volume"):
        done = two("inspect", "--type", kind, "nosuch")
        assert (done.returncode, json.loads(done.stdout)) == (1, [])
        said = "network nosuch not found" if kind == "network" else f"no such {kind}: nosuch"
        assert done.stderr.startswith(f"minirun: {said} (")


def test_ps_formats(two: Program) -> None:
    rows = [json.loads(line) for line in good(two, "ps", "-a", "--format", "json").splitlines()]
    assert [(row["Names"], row["State"]) for row in rows] == [
        ("gone", "exited"),
        ("web", "running"),
    ]
    assert rows[1]["Mounts"] == "/etc"
    lines = good(two, "ps", "-a", "--format", "{{json .}}").splitlines()
    ids = [two.id("gone"), two.id("web")]
    assert [json.loads(line)["ID"] for line in lines] == [each[:12] for each in ids]
    lines = good(two, "ps", "-a", "--no-trunc", "--format", "{{.ID}}").splitlines()
    assert lines == ids
    form = "table {{.Names}}\\t{{.State}}\\t{{.LocalVolumes}}"
    table = [line.split() for line in good(two, "ps", "-a", "--format", form).splitlines()]
    assert table[0] == ["NAMES", "STATE", "LOCAL", "VOLUMES"]
    assert table[1:] == [["gone", "exited", "0"], ["web", "running", "0"]]
    assert good(two, "ps", "--format", '{{.Label "nosuch"}}|{{.Names}}') == "|web\n"
    assert good(two, "ps", "--no-trunc").count("exec sleep 300") == 1
    assert good(two, "ps").count("...") == 1
    pid = json.loads((two.directory("web") / "state.json").read_text())["pid"]
    for words in (("-f", "json", "web"), ("web", "--format", "json"), ("--format=json", "web")):
        assert pid in json.loads(good(two, "ps", *words)), "runc's form stays"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("", "web"), ("-a", "gone web"), ("-n 1", "gone"), ("-l", "gone"), ("-n 0", "web"),
        ("-n -1", "web"), ("-n 5", "gone web"),
        ("-a -f name=^/we", "web"), ("-a -f name=o", "gone"), ("-a -f name=e", "gone web"),
        ("-a -f id=WEB -f id=GONE", "gone web"), ("-f status=exited", "gone"),
        ("-a -f exited=3", "gone"), ("-a -f exited=0", ""), ("-f exited=3", ""),
        ("-a -f before=gone", "web"), ("-a -f since=web", "gone"), ("-a -f since=gone", ""),
        ("-a -f ancestor=busybox", "gone web"), ("-a -f ancestor=busybox:latest", "gone web"),
        ("-a -f ancestor=nosuch", ""), ("-a -f volume=/mnt", "web"), ("-a -f volume=/etc", "web"),
        ("-a -f volume=/nosuch", ""), ("-a -f network=none", "gone web"),
        ("-a -f network=bridge", ""), ("-a -f health=none", "gone web"), ("-f health=healthy", ""),
        ("-a -f label=a", ""), ("-a -f publish=80", ""), ("-a -f expose=80-90/tcp", ""),
        ("-a -f name=e -f status=running", "web"),
    ],
)  # fmt: skip
def test_filters(two: Program, words: str, names: str) -> None:
    words = words.replace("WEB", two.id("web")).replace("GONE", two.id("gone")[:5])
    found = good(two, "ps", "--format", "{{.Names}}", *words.split()).split()
    assert found == names.split()


def test_labels_of_the_image(minirun: Program) -> None:
    """An image's labels are its containers': they are cleaned where they are printed."""
    minirun("run", "--name", "c", "busybox", "true")
    path = minirun.directory("c") / "state.json"
    record = json.loads(path.read_text())
    record["labels"] = {"a": "1", "evil": "\x1b[2J\nx\u202e"}
    path.write_text(json.dumps(record))
    form = '{{.Names}} {{.Label "a"}} {{.Label "evil"}}'
    assert good(minirun, "ps", "-a", "-f", "label=a=1", "--format", form) == (
        "c 1 \x1b[2J\nx\u202e\n"
    )
    assert good(minirun, "ps", "-a", "-f", "label=a=1", "-f", "label=b", "-q") == ""
    shown = good(minirun, "ps", "-a", "--format", "json")
    assert shown.rstrip("\n").isprintable()
    inspected = good(minirun, "inspect", "-f", "{{index .Config.Labels `evil`}}", "c")
    assert inspected == "\x1b[2J\nx\u202e\n"
    line = good(minirun, "events", "--since", "5m", "--until", "0s", "-f", "event=create")
    assert line.count("\n") == 1 and line.rstrip("\n").isprintable()


def test_logs_since_and_until(two: Program) -> None:
    def both(*words: str) -> tuple[str, str]:
        done = two("logs", *words, "web")
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    log = two.directory("web") / "log.json"
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    stamps = {row["log"]: row["time"] for row in rows}
    assert both() == ("hi\n", "err\n")
    assert both("--details") == (" hi\n", " err\n")
    assert both("-t") == (
        f"{stamps[chr(104) + 'i' + chr(10)]} hi\n",
        f"{stamps['err' + chr(10)]} err\n",
    )
    assert both("--since", "10m") == both("--since", "2020-01-01") == ("hi\n", "err\n")
    assert both("--until", "10m") == both("--until", "1577836800") == ("", "")
    assert both("--since", str(time.time() + 5)) == ("", "")
    last = max(stamps.values())
    assert both("--since", last) != ("", ""), "a line of that very moment counts"
    assert both("-n", "1", "--until", "1577836800") == ("", "")
    assert sum(map(len, map(str.split, both("--tail", "1")))) == 1
    begin = time.monotonic()
    assert both("-f", "--until", str(time.time() + 1)) == ("hi\n", "err\n")
    assert 0.5 < time.monotonic() - begin < 5, "it ends at --until, not with the container"


def test_events_of_docker(minirun: Program) -> None:
    form = "{{.Action}} {{.ID}} {{.Actor.Attributes.image}} {{.Actor.Attributes.exitCode}}"
    following = minirun.start("events", "--format", form, "-f", "container=one")
    time.sleep(1)
    minirun("run", "--name", "one", "busybox", "sh", "-c", "exit 7")
    one = minirun.id("one")
    minirun("run", "--rm", "--name", "other", "busybox", "sh", "-c", "exit 5")
    minirun("rm", "one")
    wait_until(lambda: minirun.left() == [])
    time.sleep(1)
    following.terminate()
    image = "busybox:latest"
    assert following.communicate()[0].splitlines() == [
        f"create {one} {image} <no value>", f"start {one} {image} <no value>",
        f"die {one} {image} 7", f"destroy {one} {image} <no value>",
    ]  # fmt: skip
    form = "{{.Action}} {{.Actor.Attributes.name}}"
    past = good(minirun, "events", "--since", "5m", "--until", "0s", "--format", form).split("\n")
    for name in ("one", "other"):
        assert [line for line in past if line.endswith(f" {name}")] == [
            f"{action} {name}" for action in ("create", "start", "die", "destroy")
        ]
    only = good(minirun, "events", "--since", "5m", "--until", "0s", "-f", "event=die", "--format",
                "json")  # fmt: skip
    found = [json.loads(line) for line in only.splitlines()]
    told = [each["Actor"]["Attributes"] for each in found]
    ids = {each["Actor"]["Attributes"]["name"]: each["Actor"]["ID"] for each in found}
    assert ids == {each["Actor"]["Attributes"]["name"]: each["id"] for each in found}
    assert ids["one"] == one
    ends = {each["name"]: each["exitCode"] for each in told}
    assert ends == {"one": "7", "other": "5"}, "that of --rm too"
    assert good(minirun, "events", "--since", "5m", "--until", "4m") == ""


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "not-seen"])
def test_events_of_a_container_that_is_deleted_while_they_are_read(
    minirun: Program, monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    """Its record was there and its log is not: each event comes once all the same."""
    good(minirun, "create", "--name", "new", "busybox", "true")
    minirun("run", "--name", "ended", "busybox", "sh", "-c", "exit 7")
    new, ended = minirun.id("new"), minirun.id("ended")
    watcher = Watcher(Settings(str(minirun.root), STORE, root_is_named=True))
    before = watcher.read() if seen else []

    def records(root: str) -> list[ContainerRecord]:
        found = all_records(root)
        good(minirun, "rm", "new", "ended")
        return found

    all_records = listing.records
    with monkeypatch.context() as patch:
        patch.setattr(listing, "records", records)
        found = before + watcher.read()
    found += watcher.read()
    events = {(one.id, one.action, one.mark): one for one in found}.values()
    assert [one.action for one in events if one.id == ended] == [
        "create", "start", "die", "destroy",
    ]  # fmt: skip
    status = [one.attributes["exitCode"] for one in events if one.action == "die"]
    assert status == ["7"]
    assert {one.attributes["name"] for one in events if one.id == ended} == {"ended"}
    assert [one.action for one in events if one.id == new] == ["create", "destroy"][not seen :]


def test_checks_of_health_leave_the_log_to_others(minirun: Program) -> None:
    """Each change is one event; a user's exec is in the log as ever."""
    check = "[ ! -e /ill ]"
    flags = ("--health-cmd", check, "--health-interval", "100ms", "--health-retries", "2")
    good(minirun, "run", "-d", "--name", "c", *flags, "busybox", "sleep", "300")

    def changes() -> list[str]:
        events = minirun.events("c")
        return [str(e["args"]["now"]) for e in events if e["name"] == "health"]  # type: ignore[index]

    wait_until(lambda: changes() == ["healthy"], 20)
    good(minirun, "exec", "c", "touch", "/ill")
    wait_until(lambda: changes() == ["healthy", "unhealthy"], 20)
    good(minirun, "exec", "c", "rm", "/ill")
    wait_until(lambda: changes() == ["healthy", "unhealthy", "healthy"], 20)
    form = "{{json .State.Health.Log}}"
    wait_until(lambda: len(json.loads(good(minirun, "inspect", "-f", form, "c"))) == 5)
    execs = [e for e in minirun.events("c") if (e["kind"], e["name"]) == ("exec", "execve")]
    assert len(execs) == 6, "two of the command, and of each exec above: through the trampoline"
    assert minirun("timeline", "c").returncode == 0


def test_restarts_and_health_are_shown(minirun: Program) -> None:
    good(minirun, "run", "-d", "--name", "again", "--restart", "on-failure:3", "--label", "a=1",
         "busybox", "sh", "-c", "sleep 0.2; exit 4")  # fmt: skip
    flags = "--health-cmd true --health-interval 1s"
    good(minirun, "run", "-d", "--name", "well", *flags.split(), "busybox", "sleep", "300")
    form = "{{.HostConfig.RestartPolicy.Name}} {{.HostConfig.RestartPolicy.MaximumRetryCount}}"
    assert good(minirun, "inspect", "-f", form, "again") == "on-failure 3\n"
    assert good(minirun, "ps", "-aq", "-f", "label=a=1") == f"{minirun.id('again')[:12]}\n"
    well = f"{minirun.id('well')[:12]}\n"
    wait_until(lambda: minirun("ps", "-q", "-f", "health=healthy").stdout == well, 20)
    assert "(healthy)" in good(minirun, "ps")
    assert good(minirun, "inspect", "-f", "{{.State.Health.Status}}", "well") == "healthy\n"
    kinds = [(event["kind"], event["name"]) for event in minirun.events("well")]
    assert kinds.count(("note", "health")) == 1 and kinds.count(("exec", "execve")) == 2
    shown = ["inspect", "-f", "{{.RestartCount}} {{.State.Status}}", "again"]
    wait_until(lambda: minirun(*shown).stdout == "3 exited\n", 30)
    begun = good(minirun, "inspect", "-f", "{{.State.StartedAt}}", "again")
    created = good(minirun, "inspect", "-f", "{{.Created}}", "again")
    assert begun > created, "the last start's"
