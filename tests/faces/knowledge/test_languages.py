"""Korean and English have the same texts: every topic, and every part of it."""

import re
import string
import tomllib
from pathlib import Path
from typing import Any

import pytest

import minirun as package
from conftest import Program
from minirun.core.errors import HINTS, UsageError
from minirun.faces import knowledge
from minirun.faces.knowledge import seccomp, texts
from minirun.faces.knowledge.language import choose
from minirun.faces.knowledge.texts import Topic
from minirun.faces.show.compare import starts_page
from minirun.faces.show.figures import figure_4
from minirun.faces.show.log import event_row
from minirun.faces.show.page import html, page_data

FOLDER = Path(package.__file__).parent / "faces" / "knowledge"
FILES = sorted(path.name for path in (FOLDER / "en").iterdir())
PAGE = "page.toml"
HANGUL = re.compile("[가-힣]")


def raw(language: str, name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / language / name).read_text(encoding="utf-8"))


def whole(language: str) -> list[Topic]:
    """All topics, all errors of a call, and all kinds of minirun's own errors, in a language."""
    others = (texts.room(name, language).values() for name in ("calls_and_errnos", "own"))
    return [*knowledge.topics(language), *(one for each in others for one in each)]


PAIRS = list(zip(whole("en"), whole("ko"), strict=True))


def test_the_same_files() -> None:
    assert sorted([*FILES, PAGE]) == sorted(path.name for path in (FOLDER / "ko").iterdir())
    assert len(FILES) >= 13


@pytest.mark.parametrize("name", FILES)
def test_a_translation_has_the_same_topics_and_nothing_else(name: str) -> None:
    english, korean = raw("en", name), raw("ko", name)
    korean.pop("titles", None)  # of the default profile: the English ones stand beside the calls
    topics = {key: one for key, one in english.items() if isinstance(one, dict)}
    assert list(topics) == list(korean)
    for key, fields in korean.items():
        assert all((*fields.values(), *topics[key].values())), key
        if name == "levels.toml":
            assert shape(fields) == shape(topics[key]), key
        elif name in ("words.toml", "labs.toml"):
            assert fields.keys() == topics[key].keys() - {"lesson"}, key
        else:
            own = fields.keys() - ({"advice"} if name == "calls_and_errnos.toml" else set())
            assert own == topics[key].keys() & set(texts.TEXTS), key


def shape(value: Any) -> Any:
    """What a text and its translation have in common: keys in their order, and placeholders."""
    if isinstance(value, dict):
        return [(key, shape(each)) for key, each in value.items()]
    if isinstance(value, list):
        return [shape(each) for each in value]
    return {field for _, field, _, _ in string.Formatter().parse(value) if field}


def test_every_text_is_translated() -> None:
    assert len(PAIRS) > 200
    for english, korean in PAIRS:
        assert english.name == korean.name
        assert (english.kind, english.man, english.spec) == (korean.kind, korean.man, korean.spec)
        for field in texts.TEXTS:
            if english.kind == texts.ERROR and field == "advice":
                continue
            said, translated = getattr(english, field), getattr(korean, field)
            assert bool(said) == bool(translated), (english.name, field)
            assert said == said.strip() and translated == translated.strip()
            if re.search("[a-z]{3} [a-z]{2,} [a-z]{2}", said) and field != "real":
                assert HANGUL.search(translated) or translated == said, (english.name, field)
        assert HANGUL.search(korean.title + korean.cause), english.name
        assert not HANGUL.search("".join(getattr(english, field) for field in texts.TEXTS))


@pytest.mark.parametrize("name", ["words.toml", "seccomp.toml"])
def test_forms_have_the_same_placeholders(name: str) -> None:
    def placeholders(text: str) -> set[str]:
        return {field for _, field, _, _ in string.Formatter().parse(text) if field}

    english, korean = raw("en", name), raw("ko", name)
    for key, fields in english.items():
        if isinstance(fields, dict):
            for field, text in fields.items():
                if field in korean[key]:
                    assert placeholders(text) == placeholders(korean[key][field]), (key, field)


def test_every_reason_of_the_default_profile_is_translated() -> None:
    titles = raw("ko", "seccomp.toml")["titles"]
    assert titles.keys() == {name for name, _, _ in seccomp.rows()}
    assert all(HANGUL.search(title) and not title.endswith(".") for title in titles.values())


@pytest.mark.parametrize(("call", "name"), sorted(HINTS))
def test_what_to_try_after_an_error_is_translated(call: str, name: str) -> None:
    found = texts.room("calls_and_errnos", "ko")[f"{call} {name}"]
    assert HANGUL.search(found.advice) and HANGUL.search(found.cause)
    assert knowledge.errno(name, call, "ko").advice == found.advice  # type: ignore[union-attr]


def test_a_search_in_korean_knows_both_languages() -> None:
    assert knowledge.search("네임스페이스", "ko")
    assert not knowledge.search("네임스페이스", "en")
    english = {one.name for one in knowledge.search("user namespace", "en")}
    assert english <= {one.name for one in knowledge.search("user namespace", "ko")}


def page_phrases() -> set[str]:
    """Every English phrase of the page: in its frame, its scripts, and what is put into both."""
    here = Path(html.__file__)
    parts = (html, page_data, starts_page)
    source = "".join(Path(part.__file__).read_text() for part in parts)
    frame = (here.parent / "page.html").read_text()
    scripts = "".join(path.read_text() for path in here.parent.glob("*.js"))
    phrases = set(re.findall(r'\b(?:t|say)\(\s*"([^"]+)"', scripts + source))
    assert len(phrases) > 50
    shown = {
        *event_row.STAGES.values(),
        *event_row.ELSEWHERE.values(),
        page_data.SIMULATED,
        "container {}",
    }
    return shown | set(re.findall("{{(.*?)}}", frame)) | phrases


def test_every_phrase_of_the_page_is_translated() -> None:
    korean = raw("ko", PAGE)
    phrases = (
        page_phrases()
        | {*event_row.STAGES.values(), *event_row.ELSEWHERE.values()}
        | {page_data.SIMULATED, "container {}"}
        | {*re.findall(r'say\(\s*"([^"]+)"', Path(figure_4.__file__).read_text())}
    ) - {"ok"}
    assert korean.keys() == phrases
    for english, said in korean.items():
        assert said.count("{}") == english.count("{}"), english
        assert HANGUL.search(said) or said in ("note", "{} / {}"), english


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "en"),
        ({"LANG": "ko_KR.UTF-8"}, "ko"),
        ({"LANG": "ko"}, "ko"),
        ({"LANG": "ko_KR.UTF-8@x"}, "ko"),
        ({"LANG": "kok_IN"}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "ko_KR.UTF-8"}, "ko"),
        ({"LANG": "ko_KR.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, "en"),
        ({"LANG": "ko_KR.UTF-8", "LC_MESSAGES": "ko_KR.UTF-8", "LC_ALL": "C.UTF-8"}, "en"),
        ({"LANG": "ko_KR.UTF-8", "LC_ALL": ""}, "ko"),
        ({"LANG": "ko_KR.UTF-8", "LC_CTYPE": "en_US.UTF-8"}, "ko"),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "de:ko:en"}, "ko"),
        ({"LANG": "ko_KR.UTF-8", "LANGUAGE": "en"}, "en"),
        ({"LANG": "C", "LANGUAGE": "ko"}, "en"),
        ({"LANGUAGE": "ko"}, "en"),
    ],
)
def test_the_locale_decides(environment: dict[str, str], expected: str) -> None:
    assert choose("", environment) == expected
    assert choose("ko", environment) == "ko"
    assert choose("en", environment) == "en"


def test_an_unknown_language() -> None:
    with pytest.raises(UsageError) as caught:
        choose("xx", {})
    assert caught.value.line() == "unknown language 'xx' (en or ko)"


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("--lang", "ko", "explain", "mount", "EPERM"), {}),
        (("explain", "--lang", "ko", "mount", "EPERM"), {"LANG": "en_US.UTF-8"}),
        (("explain", "mount", "EPERM"), {"LANG": "ko_KR.UTF-8"}),
        (("--lang", "en", "explain", "--lang=ko", "mount", "EPERM"), {"LC_ALL": "C"}),
    ],
)
def test_explain_speaks_korean(
    minirun: Program, words: tuple[str, ...], environment: dict[str, str]
) -> None:
    clear = {"LC_ALL": "", "LC_MESSAGES": "", "LANG": "", "LANGUAGE": ""}
    done = minirun(*words, env=clear | environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("mount EPERM: 허용되지 않은 동작\n")
    assert "man 페이지  mount(2), ERRORS" in done.stdout


@pytest.mark.parametrize("words", [("--lang", "xx", "ps"), ("explain", "--lang", "xx", "mount")])
def test_an_unknown_language_is_one_line(minirun: Program, words: tuple[str, ...]) -> None:
    done = minirun(*words)
    assert done.returncode == (1 if words[0] == "--lang" else 125)
    assert done.stderr.endswith(" 'xx' (en or ko)\n") and done.stderr.count("\n") == 1


def test_korean_fits_into_80_columns(minirun: Program) -> None:
    from minirun.common.screen import display_width

    for words in ((), ("stage 5",), ("mount",), ("seccomp socket",), ("--hints", "root")):
        done = minirun("--lang", "ko", "explain", *words, env={"COLUMNS": "80"})
        assert done.returncode == 0, done.stderr
        assert max(map(display_width, done.stdout.splitlines())) <= 80
