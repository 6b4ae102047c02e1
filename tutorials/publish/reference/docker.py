"""Writes tutorials/reference/docker.md from docker.toml and the parser: `make reference`."""

import tomllib
from pathlib import Path
from typing import Any

from minirun import cli
from minirun.cli import elsewhere
from minirun.cli.flags import Flags, HelpAsked
from minirun.cli.run.run_flags import CreateFlags
from minirun.core.keeping.settings import Settings
from minirun.docker.groups import CONTAINER

PAGE = Path(__file__).parents[2] / "reference" / "docker.md"
DATA: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
HEAD = """\
# docker's commands and flags

<!-- written from docker.toml and the parser: change these, then `make reference` -->

What docker's command line has, from version 20.10 to 28, and what minirun makes of it. A line of
docker's mostly works as it is, with `minirun` for `docker`.

- **same**: minirun's parser takes it, with a value or without one as docker does, and we know of no
  difference. Many are tried beside docker in the tests; it is no proof for each.
- **different**: it is there, and does something else or less.
- **not here**: why, and what to do instead.

What minirun has beyond docker is on the page of [all commands](commands.md).

## Programs that drive docker

One that calls docker's command line can be given minirun's. One that speaks to docker's API, over
the socket that DOCKER_HOST names, finds none: there is no daemon.

| program | | |
|---|---|---|
{programs}

## Commands

| docker | minirun | |
|---|---|---|
"""


def parser_of(command: str) -> type[Flags]:
    """Return the class of flags of one of docker's commands: `run`, `network ls`."""
    if command == "create":  # --help alone is that of runc's
        return CreateFlags
    name, *rest = command.split()
    try:
        cli.dispatch(name, [*rest, "--help"], Settings())
    except HelpAsked as asked:
        return type(asked.flags)
    raise LookupError(command)


def known(command: str) -> dict[str, bool]:
    """Return flag → True if it needs a value, as the parser has them."""
    flags = parser_of(command).known().values()
    return {
        name: one.kind != "bool" and not one.optional for one in flags for name in one.names
    }  # fmt: skip


def fate(command: str, flag: str) -> tuple[str, str]:
    """Return same, different or not here, and the remark, for one flag of docker's.

    Raises LookupError if neither the data nor the parser knows it.
    """
    for names, why in DATA["flags_not_here"].get(command, {}).items():
        if flag in names.split():
            return "not here", why
    if why := parser_of(command).left_out.get(flag):
        return "not here", why
    if flag not in known(command):
        raise LookupError(f"{command} {flag}: neither docker.toml nor the parser has it")
    different = DATA["different"]
    run = different["run"] if command == "create" else {}
    remark = different.get(command, {}).get(flag) or run.get(flag, "")
    return ("different", remark) if remark else ("same", "")


def commands() -> dict[str, tuple[str, str]]:
    """Return command → same, different or not here, and a remark."""
    found = {
        name: ("not here", f"{why}: {hint}") for name, (why, hint) in elsewhere.DOCKERS.items()
    }
    for name, remark in DATA["commands"].items():
        found[name] = ("same", "") if remark == "same" else ("different", remark)
    for name, other in DATA["same_as"].items():
        found[name] = ("same", f"as `{other}`")
    for name, other in CONTAINER.items():  # a function, or the command of that name
        remark = "" if "." in other else f"as `{other}`"
        found.setdefault(f"container {name}", ("same", remark))
    for name in ("container", "image", "network", "system", "volume"):
        found[name] = ("same", "a group: its commands are rows of their own")
    return dict(sorted(found.items()))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _block(command: str) -> str:
    """Return the part of the page about the flags of a command; "" if docker has none."""
    rows: dict[tuple[str, str], list[str]] = {}
    for flag in DATA["flags"][command].split():
        rows.setdefault(fate(command, flag), []).append(f"`{flag}`")
    same = rows.pop(("same", ""), [])
    parts = [f"### {command}"]
    if same:
        parts.append(f"**same**: {' '.join(same)}")
    if rows:
        lines = [
            f"| {' '.join(names)} | **{word}** | {_cell(why)} |"
            for (word, why), names in rows.items()
        ]
        parts.append("\n".join(["| flag | | |", "|---|---|---|", *lines]))
    return "\n\n".join(parts) if len(parts) > 1 else ""


def text() -> str:
    """Return the page."""
    rows = [f"| `{name}` | **{word}** | {_cell(why)} |" for name, (word, why) in commands().items()]
    blocks = [_block(name) for name in sorted(DATA["flags"])]
    flags = "## Flags\n\n`--help` is everywhere."
    programs = (
        f"| {name} | **{fate}** | {why} |" for name, (fate, why) in DATA["programs"].items()
    )
    head = HEAD.replace("{programs}", "\n".join(programs))
    return "\n\n".join([head + "\n".join(rows), flags, *filter(None, blocks)]) + "\n"
