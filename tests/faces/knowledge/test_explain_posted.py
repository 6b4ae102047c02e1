"""`explain` of lines that people have posted: each right, or "not known" with status 1; none wrong.

The lines, where they were posted, and what their cause was found to be: tests/data/posted.toml.
"""

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from conftest import Program
from minirun.cli import main
from minirun.faces import knowledge
from minirun.faces.knowledge import marks
from minirun.faces.knowledge.texts import room, words


class Posted(NamedTuple):
    """A line, and the topic that is right for it; "" if none is known."""

    line: str
    source: str
    topic: str
    why: str


DATA = Path(__file__).parents[2] / "data" / "posted.toml"
POSTED = [Posted(**row) for row in tomllib.loads(DATA.read_text())["posted"]]
ERROR_TEXTS = {one.name: one for one in marks.topics()}


def test_they_are_many_and_have_their_sources() -> None:
    assert len(POSTED) >= 60
    assert len({one.line for one in POSTED}) == len(POSTED)
    assert all(one.source.startswith("https://github.com/") and one.why for one in POSTED)
    unknown = [one for one in POSTED if not one.topic]
    assert len(unknown) >= 15, "near misses: they have words of a topic, and another cause"


@pytest.mark.parametrize("posted", POSTED, ids=[one.source[19:] for one in POSTED])
@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_posted_line(posted: Posted, lang: str, capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["explain", "--lang", lang, "--", posted.line])
    told = capfd.readouterr()
    found = [one for one in knowledge.lookup(posted.line) if one.kind != knowledge.AROUND]
    assert [one.name for one in found] == [posted.topic] * bool(posted.topic), posted.why
    if posted.topic:
        (title,) = [one.title for one in marks.topics(lang) if one.name == posted.topic]
        assert (status, told.err) == (0, "")
        assert " ".join(told.out.split()).startswith(f"{posted.topic}: {title}"[:200])
        return
    assert status == 1
    if told.out:
        first = " ".join(told.out.partition("\n\n")[0].split())
        assert first == words(lang)["first"]["around"]
    else:
        assert told.err.startswith("minirun: nothing is known of ")


_OTHER = (
    (r"\d{1,3}(\.\d{1,3}){3}", "10.4.5.6"),
    (r"(?<=:)\d{2,5}\b|(?<=port )\d+", "31999"),
    (r"\b(?:veth[0-9a-f]{7}|[a-z]+_[a-z0-9_]+|[a-z]+(?:-[a-z0-9]+)+-1)\b", "other_0"),
    (r"(?<=host: )\S+|(?<=resolving ')[^']+|(?<=lookup )\S+", "a.example.org"),
)
"""What differs from one machine to the next: addresses, ports, names of containers and hosts."""


@pytest.mark.parametrize("posted", POSTED, ids=[one.source[19:] for one in POSTED])
def test_a_line_of_networks_with_other_names_ports_and_addresses(posted: Posted) -> None:
    if posted.topic not in room("networks"):
        return
    line = posted.line
    for pattern, other in _OTHER:
        line = re.sub(pattern, other, line)
    assert [one.name for one in knowledge.lookup(line)] == [posted.topic], line


def test_each_topic_of_networks_was_posted() -> None:
    topics = [one.topic for one in POSTED]
    assert len(room("networks")) >= 10
    assert [name for name in room("networks") if name not in topics] == []


def test_some_are_known_by_the_words_around_alone() -> None:
    around = [one for one in POSTED if not one.topic and knowledge.lookup(one.line)]
    assert len(around) >= 5
    for one in around:
        assert [topic.kind for topic in knowledge.lookup(one.line)] == [knowledge.AROUND]


def test_the_words_around_are_no_answer_with_json_either(minirun: Program) -> None:
    done = minirun("explain", "--json", "OCI runtime create failed: qq zz")
    assert (done.returncode, done.stderr) == (1, "")
    assert '"kind": "around"' in done.stdout


@pytest.mark.parametrize(
    "text",
    [
        "permission denied",  # a word of many topics
        "no such file or directory",
        "file exists: unknown",
        "insufficient permissions",
        "unknown device",
        "unknown error",
        "nvidia-uvm",
        "driver not loaded yet",
        "exec failed: qq: permission denied",
        "dial tcp 10.0.0.1:443: connect: permission denied",
        "mkdir /data/x: permission denied",
        "open /data/x: no such file or directory",
        "x: exec format",
        "the machine is out of memory",
        "Unknown runtime",
        "docker.sock",
    ],
)
def test_a_part_of_a_phrase_is_no_trouble(text: str) -> None:
    """What is known of the whole phrase is not said of its words."""
    found = [one for one in knowledge.lookup(text) if one.kind in ("error text", "own")]
    assert [one.name for one in found] in ([], ["driver not loaded"]), text


def test_what_only_speaks_of_the_words_is_called_so(minirun: Program) -> None:
    done = minirun("explain", "daemon-reload")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == words()["first"]["search"]
    assert "NVML: Unknown Error: " in done.stdout


def test_each_line_of_a_text_is_explained_once() -> None:
    text = "Reason: CrashLoopBackOff\nqq\nReason: OOMKilled\nReason: OOMKilled\nExit Code: 137\n"
    names = [one.name for one in knowledge.error_text(text)]
    assert names == ["CrashLoopBackOff", "OOMKilled", "exit code 137"]


def test_the_unknown_error_names_the_setting_that_causes_it_from_the_start_on() -> None:
    for lang in ("en", "ko"):
        topic = room("error_texts", lang)["NVML: Unknown Error"]
        assert "no-cgroups = true" in topic.cause and "no-cgroups = false" in topic.advice


def test_every_mark_is_a_phrase() -> None:
    """No mark is a word that stands in other texts too."""
    for one in ERROR_TEXTS.values():
        for mark in (*one.marks, *one.inner):
            assert " " in mark.strip() or mark in (
                "cudaerrorunknown", "cudaerrornodevice", "cuda_error_no_device", "oomkilled",
                "errimagepull", "cuda_error_out_of_memory", "cuda_error_system_not_ready",
                "cudaerrorsystemnotready", "cudaerrorsystemdrivermismatch", "mpsconnectionfailed",
                "cudaerrorcompatnotsupportedondevice", "cudaerrornokernelimagefordevice",
                "cudaerrorinsufficientdriver", "cudaerrorinvaliddevice",
                "cuda_error_invalid_device", "cudaerrorillegaladdress",
                "cuda_error_illegal_address",
                "cudaerrordevicesunavailable", "cuda_error_devices_unavailable",
                "errimageneverpull", "start-limit-hit",
            ), mark  # fmt: skip
