"""Spec files of tests."""

import json
from pathlib import Path
from typing import Any

from gpu.recorded import recorded_text

KIND = "example.com/thing"
EDITS = {"env": ["THING=yes"]}


def spec(*devices: str, kind: str = KIND, **more: Any) -> dict[str, Any]:
    """A spec whose devices have an environment variable each; `more` are its other properties."""
    rows = [{"name": name, "containerEdits": {"env": [f"THING={name}"]}} for name in devices]
    return {"cdiVersion": "1.1.0", "kind": kind, "devices": rows, **more}


def write(folder: Path, name: str, content: Any) -> Path:
    """Write a spec file; YAML by its name."""
    folder.mkdir(exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    if name.endswith("ml") and not isinstance(content, str):
        import yaml

        text = yaml.safe_dump(content)
    (folder / name).write_text(text)
    return folder / name


def recorded(name: str) -> dict[str, Any]:
    """A spec of the real nvidia-ctk."""
    return json.loads(recorded_text(f"cdi/{name}.json"))
