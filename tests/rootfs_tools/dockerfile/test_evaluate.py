"""What instructions mean for the configuration, and the work that they are."""

from typing import Any

import pytest

from minirun.common.quantities import nanoseconds
from minirun.core.config import DEFAULT_PATH
from minirun.core.errors import ImageError
from rootfs_tools.dockerfile.evaluate import (
    Copy,
    MakeDirectory,
    RunStep,
    StageState,
    Work,
)
from rootfs_tools.dockerfile.parse import parse

BASE = {"Env": ["PATH=/bin"], "Cmd": ["base"], "Labels": None}


def evaluate(text: str, **given: str) -> tuple[dict[str, Any], list[Work]]:
    """Return the configuration after these lines, and their work."""
    found = parse(f"FROM base\n{text}")
    state = StageState(BASE, given, {"VERSION": "12", "TARGETARCH": "amd64"}, found.escape)
    works = [state.take(each) for each in found.stages[0].instructions]
    return state.config, [work for work in works if work]


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("ENV A=1 B=$A\nENV C=$A", "Env", ["PATH=/bin", "A=1", "B=", "C=1"]),
        ("ENV PATH=$PATH:/x", "Env", ["PATH=/bin:/x"]),
        ("ARG X=1\nENV X=2 Y=$X\nARG X=3\nENV Z=$X", "Env", ["PATH=/bin", "X=2", "Y=1", "Z=2"]),
        ("ARG VERSION\nENV V=$VERSION", "Env", ["PATH=/bin", "V=12"]),
        ("ENV V=$VERSION$TARGETARCH", "Env", ["PATH=/bin", "V="]),
        ("ARG GIVEN=no\nENV V=$GIVEN", "Env", ["PATH=/bin", "V=yes"]),
        ("LABEL a=b 'c d'=\"e f\"", "Labels", {"a": "b", "c d": "e f"}),
        ("CMD a b", "Cmd", ["/bin/sh", "-c", "a b"]),
        ('SHELL ["/bin/bash", "-c"]\nCMD a', "Cmd", ["/bin/bash", "-c", "a"]),
        ('ENTRYPOINT ["/x"]', "Cmd", None),
        ('CMD ["y"]\nENTRYPOINT ["/x"]', "Cmd", ["y"]),
        ("USER $PATH", "User", "/bin"),
        ("WORKDIR /a\nWORKDIR b/../c", "WorkingDir", "/a/c"),
        ("EXPOSE 80 7000-7001/UDP", "ExposedPorts", {"80/tcp": {}, "7000/udp": {}, "7001/udp": {}}),
        ('VOLUME ["/a b"]\nVOLUME /c', "Volumes", {"/a b": {}, "/c": {}}),
        ("STOPSIGNAL SIGQUIT", "StopSignal", "SIGQUIT"),
        ("STOPSIGNAL rtmin+3", "StopSignal", "rtmin+3"),
        ("ARG S=9\nSTOPSIGNAL $S", "StopSignal", "9"),
        ("HEALTHCHECK NONE", "Healthcheck", {"Test": ["NONE"]}),
        ("HEALTHCHECK --interval=1m30s --retries=3 CMD a b", "Healthcheck",
         {"Test": ["CMD-SHELL", "a b"], "Interval": 90 * 10**9, "Retries": 3}),
        ('HEALTHCHECK CMD ["a"]', "Healthcheck", {"Test": ["CMD", "a"]}),
        ('HEALTHCHECK cmd [ "a" ]', "Healthcheck", {"Test": ["CMD", "a"]}),
        ("HEALTHCHECK --interval=0 --timeout=.5s CMD\ta b", "Healthcheck",
         {"Test": ["CMD-SHELL", "a b"], "Interval": 0, "Timeout": 5 * 10**8}),
    ],
)  # fmt: skip
def test_the_configuration(text: str, key: str, value: object) -> None:
    assert evaluate(text, GIVEN="yes")[0].get(key) == value


def test_work() -> None:
    text = (
        "WORKDIR /w\nARG A=1\nRUN --mount=type=cache,dst=c x $A\nUSER u\nRUN [\"y\"]\n"
        "COPY a b ./\nADD --chown=1 x.tar /y"
    )  # fmt: skip
    work = evaluate(text, http_proxy="http://p")[1]
    mount = {"type": "cache", "target": "/w/c"}
    env = ("PATH=/bin", "http_proxy=http://p", "A=1")
    assert work == [
        MakeDirectory("/w", ""),
        RunStep(("/bin/sh", "-c", "x $A"), env, "/w", "", (mount,), "default"),
        RunStep(("y",), env, "/w", "u", (), "default"),
        Copy(("a", "b"), "/w/", "", "", "", unpacks=False),
        Copy(("x.tar",), "/y", "", "1", "", unpacks=True),
    ]


def test_here_documents_of_run() -> None:
    """A document alone is the script; behind a command the shell reads it; #! is a program."""
    text = 'RUN <<E\n$A b\nE\nRUN cat <<E >x\n$A\nE\nSHELL ["bash", "-c"]\nRUN <<-E\n\t#!/x\n\tE'
    found = [work for work in evaluate(text)[1] if isinstance(work, RunStep)]
    assert [(each.argv, each.script) for each in found] == [
        (("/bin/sh", "-c", "$A b\n"), ""),
        (("/bin/sh", "-c", "cat <<E >x\n$A\nE"), ""),
        (("/dev/pipes/E",), "#!/x\n"),
    ]


def test_here_documents_of_copy() -> None:
    text = (
        "ENV A=1\nCOPY --exclude=x* --parents <<a f <<'b' <<\"$\" /d/\n$A '\\$A'\na\n$A\nb\n$A\n$"
    )
    (work,) = evaluate(text)[1]
    assert isinstance(work, Copy)
    assert work.documents == (("a", "1 '$A'\n"), ("b", "$A\n"), ("$", "$A\n"))
    assert (work.sources, work.excludes, work.parents) == (("f",), ("x*",), True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("target=/x", {"type": "bind", "target": "/x", "readonly": "true"}),
        ("TYPE=Bind,DST=x,RW", {"type": "bind", "target": "/w/x", "readonly": ""}),
        ("type=bind,target=/x,rw=false,src=y", {"type": "bind", "target": "/x", "source": "y",
                                                "readonly": "true"}),
        ("type=cache,target=$V,ro", {"type": "cache", "target": "/v", "readonly": "true"}),
        ("type=secret,target=/a/key", {"type": "secret", "target": "/a/key", "id": "key"}),
        ("type=secret,src=s,required", {"type": "secret", "id": "s", "required": "true"}),
        ("type=ssh", {"type": "ssh", "id": "default"}),
    ],
)  # fmt: skip
def test_mounts(text: str, found: dict[str, str]) -> None:
    run = evaluate(f"ENV V=/v\nWORKDIR /w\nRUN --mount={text} x")[1][-1]
    assert isinstance(run, RunStep) and run.mounts == (found,)


@pytest.mark.parametrize("env", [None, ["FOO", "A=1"]])
def test_a_path_is_always_set(env: list[str] | None) -> None:
    state = StageState({"Env": env}, {}, {})
    state.take(parse("FROM x\nENV PATH=/x:$PATH").stages[0].instructions[0])
    assert state.config["Env"][-1] == f"PATH=/x:{DEFAULT_PATH}"


def test_what_the_history_shows() -> None:
    state = StageState({}, {"http_proxy": "secret"}, {})
    for each in parse("FROM x\nARG A=1\nARG B=2\nENV B=3\nARG http_proxy").stages[0].instructions:
        state.take(each)
    assert state.shown_arguments() == ("A=1",)
    run = state.take(parse("FROM x\nRUN y").stages[0].instructions[0])
    assert isinstance(run, RunStep) and f"PATH={DEFAULT_PATH}" in run.env


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("EXPOSE 70000", "line 2: invalid containerPort: 70000"),
        ("EXPOSE 0", "invalid containerPort: 0"),
        ("COPY a", "requires at least two arguments"),
        ("COPY a b c", "must be a directory and end with a /"),
        ("ADD https://x/y /z", "an address"),
        ("ENV A=1\nENV B", "line 3: B must have two arguments"),
        ("ENV A=${B", "line 2: unexpected end|unsupported"),
        ("RUN --mount=type=volume,id=x y", "type=volume: not known"),
        ("RUN --mount=type=secret y", "line 2: RUN --mount: invalid secret mount: id or target"),
        ("RUN --mount=type=secret,id=a,src=b y", "both source and id can't be set"),
        ("RUN --mount=type=secret,id=a,from=b y", "unexpected key 'from' for type=secret"),
        ("RUN --mount=type=bind,target=/x,mode=1 y", "unexpected key 'mode' for type=bind"),
        ("RUN --mount=type=bind y", "target is required"),
        ("RUN --mount=type=bind,target=/x,ro=x y", "invalid value for readonly: x"),
        ("RUN --mount=type=cache,target=/x,sharing=x y", "unsupported sharing value 'x'"),
        ("RUN --mount=target=/x,from=$A y", "'from' has no variables"),
        ("COPY --parents=x a /b", "expecting boolean value for flag parents, not: x"),
        ("COPY <<../a /b/\n../a", "called '../a': no name of a file"),
        ("COPY a <<b\nb", "COPY cannot accept a heredoc as a destination"),
        ("RUN <<..\n#!/bin/sh\n..", "called '..': no name of a file"),
        ('ENV A="${B:?say it}"', "line 2: B: say it"),
        ("RUN --mount=type=cache,foo=x,target=/y z", "unexpected key 'foo'"),
        ("RUN --mount=type=cache y", "target is required"),
        ("SHELL sh", "SHELL requires"),
        ("STOPSIGNAL foo", "line 2: Invalid signal: foo"),
        ("STOPSIGNAL 65", "Invalid signal: 65"),
        ("STOPSIGNAL TERM+3", "Invalid signal"),
        ("HEALTHCHECK x", "unknown type 'x'"),
        ("HEALTHCHECK --interval=x CMD y", "invalid duration 'x'"),
        ("HEALTHCHECK --retries=x CMD y", "line 2"),
        ("HEALTHCHECK --retries=9999999999999999999 CMD y", "line 2: invalid number of retries"),
        ("HEALTHCHECK --interval=9999999h CMD y", "line 2: invalid duration"),
        ("HEALTHCHECK --timeout=2us CMD y", 'line 2: Interval "timeout" cannot be less than 1ms'),
        ("HEALTHCHECK --timeout=1٣s CMD y", "line 2: invalid duration"),
        ('VOLUME [""]', "can not be an empty string"),
        (
            f"ENV A={'x' * 10**5}\nENV B=$A$A$A$A$A\n"
            + "LABEL a=$B b=$B c=$B\nENV C=$B D=$B\n" * 2
            + "ENV E=$B F=$B G=$B H=$B",
            "line 8: variables and labels of more than",
        ),
    ],
)
def test_what_is_wrong_is_refused(text: str, words: str) -> None:
    with pytest.raises(ImageError, match=words):
        evaluate(text)


@pytest.mark.parametrize(("text", "value"), [("1h", 3600e9), ("1.5s", 1.5e9), ("2ms3us", 2003e3)])
def test_durations(text: str, value: float) -> None:
    assert nanoseconds(text) == value
