"""`import minirun` is light, and its names are there all the same."""

import subprocess
import sys
from pathlib import Path

import pytest

import minirun

SOURCE = str(Path(minirun.__file__).parents[1])
PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[1])
known = set(sys.modules)
begin = time.perf_counter()
import minirun
print(time.perf_counter() - begin, *sorted(set(sys.modules) - known))
"""


def test_it_imports_nothing_and_takes_no_time() -> None:
    times = []
    for _ in range(5):
        argv = [sys.executable, "-IS", "-c", PROGRAM, SOURCE]
        seconds, *modules = subprocess.check_output(argv, text=True).split()
        times.append(float(seconds))
        assert modules == ["minirun"]
    assert min(times) < 0.010


def test_its_names_come_when_they_are_asked_for() -> None:
    for name in (
        "Container",
        "DeviceDiff",
        "Namespaces",
        "Timeline",
        "run",
        "replay",
        "can_run",
    ):
        assert name in dir(minirun)
        assert getattr(minirun, name).__module__.startswith("minirun.faces.api.")
    with pytest.raises(AttributeError, match="module 'minirun' has no attribute 'nosuch'"):
        minirun.nosuch  # noqa: B018


def test_no_submodule_hides_a_name() -> None:
    import minirun.cli.run.run_image
    import minirun.core.container
    import minirun.faces.api
    import minirun.faces.show

    for name in dir(minirun.faces.api):
        assert getattr(minirun.faces.api, name) is not None
    assert callable(minirun.run)
    assert callable(minirun.replay)


def test_the_package_needs_no_notebook() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.path.append(sys.argv[2]); import minirun;"
        "minirun.run; print({m.split('.')[0] for m in sys.modules} & {'IPython','asyncio','rich'})"
    )
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    argv = [sys.executable, "-IS", "-c", program, SOURCE, packages]
    assert subprocess.check_output(argv, text=True) == "set()\n"


def test_a_recording_needs_nothing_of_unix() -> None:
    program = """
import sys
for name in ("fcntl", "ctypes", "pwd", "grp", "termios", "tty", "resource", "_prctl"):
    sys.modules[name] = None
import shutil  # which looks at the platform once it is imported
sys.platform = "win32"
import minirun
timeline = minirun.replay("gpus-0-1")
print(len(timeline.stages), bool(timeline._repr_html_()), *minirun.can_run())
stepper = minirun.step("ubuntu", gpus="0,1")
print(stepper.until("5:end").place, "nodes" in stepper.changes)
"""
    said = subprocess.check_output([sys.executable, "-c", program], text=True, cwd=SOURCE)
    timeline, stepper = said.splitlines()
    assert timeline == "7 True False containers need Linux, and this is win32"
    assert stepper.startswith("after stage 5: ") and stepper.endswith(" True")
