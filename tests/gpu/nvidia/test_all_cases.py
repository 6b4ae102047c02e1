"""Every recorded case of NVIDIA's programs is compared somewhere, and which differ on purpose.

cli      test_golden.py             container, exit status, text, log, cgroup rules
hook     hook/test_hook.py, hook/test_prestart.py   environment → arguments
runtime  test_golden_toolkit.py     config.json, exit status, text, the call underneath
cdi      test_golden_toolkit.py     specs byte for byte, and what is said
ctk      ctk/test_engines.py, runtime/test_config.py
"""

from gpu.nvidia import test_golden, test_golden_toolkit
from gpu.nvidia.differences import DIFFERENT
from gpu.recorded import DATA

ENGINES = {"runtime-configure-docker", "runtime-configure-containerd", "runtime-configure-crio"}
DEFAULTS = {"config-default-v1.17.2", "config-default-v1.20.0"}


def test_every_case_is_compared() -> None:
    compared = {
        "cli": {*test_golden.CASES, *test_golden.TEXTS},
        "cli/logs": set(test_golden.LOGS),
        "runtime": set(test_golden_toolkit.RUNTIME),
        "cdi": {*test_golden_toolkit.SPECS, "cdi-list"},
        "ctk": ENGINES | DEFAULTS,
    }
    for folder, names in compared.items():
        files = [path for path in (DATA / folder).iterdir() if path.is_file()]
        cases = [path.name.removesuffix(".diff") for path in files]
        assert len(cases) == len(set(cases)), f"a case of {folder} whole and as a difference"
        there = {case.rpartition(".")[0] for case in cases}
        assert there == names, f"a case of {folder} that nobody looks at"


def test_at_most_three_differ_on_purpose() -> None:
    """The summary of a test run names them, as xfailed, with the reason."""
    every = {*test_golden.CASES, *test_golden_toolkit.RUNTIME, *test_golden_toolkit.SPECS}
    assert set(DIFFERENT) <= every and len(DIFFERENT) <= 3
