"""core/lazy: a module's name now, the module at its first use."""

import subprocess
import sys
from pathlib import Path

import minirun
from minirun.core.lazy import lazy

PATHS = [str(Path(minirun.__file__).parents[1])]
HEAD = f"import sys; sys.path[:0] = {PATHS!r}; from minirun.core.lazy import lazy\n"


def run(program: str, folder: Path) -> str:
    argv = [sys.executable, "-IS", "-c", f"{HEAD}sys.path.insert(0, {str(folder)!r})\n{program}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_module_comes_at_its_first_use(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("print('late is imported')\nvalue = 1\n")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text("print('pack is imported')\n")
    (tmp_path / "pack/part.py").write_text("print('part is imported')\nvalue = 2\n")
    program = (
        "with lazy:\n    import late\n    from pack import part as other\n"
        "print('begin')\nprint(late.value, late.value)\nprint(other.value)\n"
    )
    assert run(program, tmp_path).split("\n") == [
        "begin", "late is imported", "1 1", "pack is imported", "part is imported", "2", "",
    ]  # fmt: skip


def test_what_is_set_is_set_in_the_module(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("value = 1\ndef get():\n    return value\n")
    program = "with lazy:\n    import late\nlate.value = 2\nprint(late.get())\n"
    assert run(program, tmp_path) == "2\n"


def test_what_is_loaded_is_the_module_itself() -> None:
    with lazy:
        from minirun.core import events
    assert events is sys.modules["minirun.core.events"]


def test_a_missing_one_is_an_error_at_its_use(tmp_path: Path) -> None:
    program = (
        "with lazy:\n    import nosuch\n"
        "try:\n    nosuch.value\nexcept ModuleNotFoundError as error:\n    print(error.name)\n"
    )
    assert run(program, tmp_path) == "nosuch\n"


def test_a_name_that_a_module_has_not(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("")
    program = (
        "with lazy:\n    import late\n"
        "try:\n    late.value\nexcept AttributeError as error:\n    print(error)\n"
    )
    assert run(program, tmp_path) == "module 'late' has no attribute 'value'\n"


def test_imports_elsewhere_are_what_they_were(tmp_path: Path) -> None:
    """Another thread's, while the block is open; and all of them after an error in it."""
    (tmp_path / "other.py").write_text("value = 3\n")
    program = (
        "import builtins, threading\n"
        "importer = builtins.__import__\n"
        "seen = []\n"
        "def work():\n    exec('from other import value; seen.append(value)', {'seen': seen})\n"
        "thread = threading.Thread(target=work)\n"
        "try:\n    with lazy:\n        thread.start()\n        thread.join()\n"
        "        raise OSError\n"
        "except OSError:\n    pass\n"
        "print(seen, builtins.__import__ is importer)\n"
    )
    assert run(program, tmp_path) == "[3] True\n"


def test_after_the_barrier_a_first_use_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("value = 1\n")
    program = (
        "with lazy:\n    import late\n"
        "from minirun.core.process.barrier import close_imports\nclose_imports()\n"
        "try:\n    late.value\nexcept ImportError as error:\n    print(error.name)\n"
    )
    assert run(program, tmp_path) == "late\n"


def test_what_init_needs_is_loaded_before(tmp_path: Path) -> None:
    (tmp_path / "early.py").write_text("value = 1\n")
    program = (
        "with lazy:\n    import early\n"
        "from minirun.core.process.barrier import close_imports\n"
        "lazy.load('early')\nclose_imports()\nprint(early.value)\n"
    )
    assert run(program, tmp_path) == "1\n"


def test_two_threads_use_a_module_at_once(tmp_path: Path) -> None:
    """The second waits until the first has imported it."""
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(0.3)\nvalue = 1\n")
    program = (
        "import threading, time\n"
        "with lazy:\n    import slow\n"
        "seen = []\n"
        "threads = [threading.Thread(target=lambda: seen.append(slow.value)) for _ in range(2)]\n"
        "for thread in threads:\n    thread.start()\n    time.sleep(0.1)\n"
        "for thread in threads:\n    thread.join()\n"
        "print(seen)\n"
    )
    assert run(program, tmp_path) == "[1, 1]\n"
