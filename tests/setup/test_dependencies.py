"""What minirun imports is what its installation brings: pyproject.toml."""

import ast
import sys
import tomllib
from pathlib import Path

TOP = Path(__file__).parents[2]
PACKAGES = {"yaml": "pyyaml", "pynvml": "nvidia-ml-py", "backports": "backports.zstd"}
"""The package that an import comes from, where it has another name."""
OPTIONAL = {
    "prctl": {"_prctl", "prctl"},
    "notebook": {"IPython", "anywidget", "traitlets"},
    "dns": {"dns"},
}
"""What minirun can do without, by the extra that brings it, or an interpreter with IPython has."""


def imported(path: Path) -> set[str]:
    """The modules of others that a file imports, at its top or in a function."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names - {"minirun", "typing_extensions"}  # mypy's alone


def test_each_import_is_a_dependency() -> None:
    """jeepney was in the tests' extra alone once, so that no test missed it."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    brought = {word.split(">")[0].split(";")[0].strip() for word in project["dependencies"]}
    assert set(OPTIONAL) <= set(project["optional-dependencies"])
    needed = {name for path in (TOP / "minirun").rglob("*.py") for name in imported(path)}
    needed -= set().union(*OPTIONAL.values())
    assert {PACKAGES.get(name, name) for name in needed} - brought == set()
    assert "jeepney" in needed
