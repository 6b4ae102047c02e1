"""The golden cases of NVIDIA's toolkit, and the tables in which they are short."""

from typing import Any


def toml(case: dict[str, Any]) -> str:
    """The config.toml of a hook's case, in which `cli.` and `rt.` stand for two tables."""
    text: str = case.get("config", "")
    for short, name in (("cli.", "nvidia-container-cli."), ("rt.", "nvidia-container-runtime.")):
        text = "\n".join(
            name + line.removeprefix(short) if line.startswith(short) else line
            for line in text.splitlines()
        )
    return f"{text}\n"
