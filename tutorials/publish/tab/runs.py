"""What of the course runs in the tab: runs.toml, and the pages that are written from it.

A row of runs.toml is a lesson, a level or a lab that was tried: by tried.py in node, or, a level,
by tests/publish/test_tab_course.py in Chromium. `seconds`: how long all its commands took, in node,
on a machine that did nothing else. With `en` and `ko` it does not run, or not all of it, and they
say why; `blocks` are then the numbers of the lesson's blocks that do not, from 1.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import tomlkit

from minirun.faces.knowledge.texts import ENGLISH
from minirun.faces.teach.lab import labs as catalogue
from minirun.faces.teach.levels import programs
from tutorials.publish.notebooks import LANGUAGES, ROOT, lessons, source

FILE = Path(__file__).with_name("runs.toml")
KINDS = ("lessons", "levels", "labs")
_HEAD = {
    "en": """\
# What runs in a browser's tab

<!-- written from tutorials/publish/tab/runs.toml: change that, then `make reference` -->

`make tab` makes a page in which a real Linux runs, in an emulator, and minirun in it: 512 MiB of
memory, one processor of 32 bits, no way out of the page. What was tried there: all commands of a
lesson in their order, a level's program by `minirun level check`, a lab from start to reset.
**Of {all} lessons, levels and labs, {tried} have been tried, and {count} run**, as their pages say.

A time is that of all commands of a row, if it was measured, on one machine with two processors:
yours differs. On a machine that has much else to do the emulator is many times slower, and what has
a limit of time may fail there: close other programs.
""",
    "ko": """\
# 브라우저의 탭에서 실행되는 것

<!-- written from tutorials/publish/tab/runs.toml: change that, then `make reference` -->

`make tab`은 에뮬레이터 안에서 진짜 Linux가, 그 안에서 minirun이 실행되는 페이지를 만든다:
메모리 512 MiB, 32비트 프로세서 하나, 페이지 밖으로 나가는 길은 없다. 그 안에서 실행해 본 것: 수업의
모든 명령을 순서대로, 레벨의 프로그램을 `minirun level check`로, 실습을 시작부터 reset까지.
**수업, 레벨, 실습 {all}개 가운데 {tried}개를 실행해 보았고, {count}개가 글이 말하는 대로
실행된다.**

시간은 그 행의 모든 명령을 합한 것으로, 잰 것만 적었다. 프로세서 두 개짜리 컴퓨터에서 쟀으므로 다른
컴퓨터에서는 다르다. 다른 일이 많은 컴퓨터에서는 에뮬레이터가 몇 배 느리고, 시간 제한이 있는 것은
실패할 수 있다: 다른 프로그램을 닫는다.
""",
}
_TITLES = {
    "en": {"lessons": "Lessons", "levels": "Levels of the ladder", "labs": "Labs"},
    "ko": {"lessons": "수업", "levels": "사다리의 레벨", "labs": "실습"},
}
_COLUMNS = {"en": "| | runs | time | |", "ko": "| | 실행 | 시간 | |"}
_YES = {"en": ("yes", "in part", "no", "not tried yet"), "ko": ("예", "일부", "아니요", "아직")}
_TIME = {"en": "{minutes} min {seconds} s", "ko": "{minutes}분 {seconds}초"}


def rows() -> dict[str, dict[str, dict[str, Any]]]:
    """Return runs.toml: kind → name → row."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def course() -> dict[str, list[str]]:
    """Return all that there is to try: kind → names, in their order."""
    return {
        "lessons": lessons(),
        "levels": [each.name for each in programs.levels() if not each.is_open],
        "labs": [each.name for each in catalogue.labs()],
    }


def keep(kind: str, name: str, seconds: float, *, runs: bool, fast: bool) -> bool:
    """Write a row, with its time unless `fast`. Return True if there is a row that says otherwise.

    What does not run has no row until a person has written the reason.
    """
    text = tomlkit.parse(FILE.read_text(encoding="utf-8")) if FILE.exists() else tomlkit.document()
    rows: Any = text.setdefault(kind, tomlkit.table(is_super_table=True))
    if not runs and name not in rows:
        return True
    row = rows.setdefault(name, tomlkit.table())
    if not fast:
        row["seconds"] = round(seconds)
    FILE.write_text(tomlkit.dumps(text), encoding="utf-8")
    return runs != (ENGLISH not in row or "blocks" in row)


def page(language: str) -> Path:
    """Return where the page of a language is."""
    return ROOT / f"tutorials/reference/tab.{language}.md"


def text(language: str) -> str:
    """Return the page."""
    table, names = rows(), course()
    every = [row for kind in KINDS for row in table.get(kind, {}).values()]
    count = sum(ENGLISH not in row for row in every)
    whole = sum(len(names[kind]) for kind in KINDS)
    found = [_HEAD[language].format(count=count, tried=len(every), all=whole)]
    for kind in KINDS:
        own = table.get(kind, {})
        lines = [_line(kind, name, own.get(name), language) for name in names[kind]]
        found.append(f"\n## {_TITLES[language][kind]}\n\n{_COLUMNS[language]}\n|---|---|---|---|\n")
        found += lines
    return "".join(found)


def _line(kind: str, name: str, row: dict[str, Any] | None, language: str) -> str:
    yes, part, no, not_yet = _YES[language]
    if row is None:
        return f"| {_name(kind, name, language)} | {not_yet} | | |\n"
    runs = yes if ENGLISH not in row else part if "blocks" in row else no
    minutes, seconds = divmod(row.get("seconds", 0), 60)
    time = _TIME[language].format(minutes=minutes, seconds=seconds) if "seconds" in row else ""
    return f"| {_name(kind, name, language)} | {runs} | {time} | {row.get(language, '')} |\n"


def _name(kind: str, name: str, language: str) -> str:
    if kind == "lessons":
        title = source(name, language).partition("\n")[0].removeprefix("# ")
        return f"[{title}](../{name}.{language}.md)"
    if kind == "levels":
        level = programs.find(name, language)
        return f"[{name}](../levels/{level.file}): {level.idea}"
    return f"{name}: {catalogue.find(name, language).title}"


def write() -> None:
    """Write the pages."""
    for language in LANGUAGES:
        page(language).write_text(text(language), encoding="utf-8")
