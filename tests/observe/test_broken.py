"""What broken.py says of each bundle is true, by strace."""

import platform
import re
import subprocess
from pathlib import Path

import pytest

from observe.broken import BROKEN, EXIT, RUNTIMES, argv, clear, make
from required import installed

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the calls are those of x86-64"
)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", BROKEN)
def test_the_call_that_fails(tmp_path: Path, name: str, runtime: str) -> None:
    for program in ("strace", "runc", runtime):
        installed(program)
    (tmp_path / "bundle").mkdir()
    bundle = make(BROKEN[name], tmp_path / "bundle")
    *before, program = argv(runtime)
    trace = ["strace", "-f", "-qq", "-s", "300", "-o", str(tmp_path / "trace"), program]
    root = ["--root", str(tmp_path / "root")]
    container = f"observe-{name}-{runtime}"
    done = subprocess.run(
        [*before, *trace, *root, "run", "--bundle", str(bundle), container],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    clear(runtime, tmp_path / "root", container)
    assert done.returncode != 0
    failure = BROKEN[name].failure(runtime)
    calls = whole((tmp_path / "trace").read_text(errors="replace"))
    fitting = [call for call in calls if call.startswith(f"{failure.call}(")]
    fitting = [call for call in fitting if failure.about in call.partition(") = ")[0]]
    if failure.call == EXIT:
        assert [call for call in fitting if call.startswith(f"{EXIT}({failure.about})")]
    elif failure.errno:
        assert [call for call in fitting if f" = -1 {failure.errno} " in call], calls
    else:
        assert [call for call in fitting if call.endswith(" = 0")]
        assert not [call for call in fitting if " = -1 " in call]


def whole(trace: str) -> list[str]:
    """The calls of a trace, without the pid; halves that strace wrote apart are joined."""
    calls, begun = [], {}
    for line in trace.splitlines():
        pid, _, call = line.partition(" ")
        if call.endswith("<unfinished ...>"):
            begun[pid] = call.removesuffix("<unfinished ...>").rstrip()
        elif found := re.match(r"\s*<\.\.\. \w+ resumed>(.*)", call):
            call = begun.pop(pid, "") + found[1]
        if not call.endswith("<unfinished ...>"):
            calls.append(re.sub(r"\)\s+= ", ") = ", call.strip()))
    return calls
