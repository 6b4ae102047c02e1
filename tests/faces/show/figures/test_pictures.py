"""The pictures in the repository are what the program draws of the recordings that it ships."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from conftest import Program
from faces.show.browser import Browser
from minirun.faces import recordings
from minirun.faces.knowledge.texts import room as texts_of_stages
from minirun.faces.show.log.recording import read

ROOT = Path(__file__).parents[4]
KEPT = ROOT / "tutorials/pictures"
PICTURES = {
    "figure-1": "figure-1", "figure-2": "gpus-0-1", "figure-3": "gpus-0-1",
    "figure-3.ko": "gpus-0-1", "figure-4": "cdi", "figure-4.ko": "cdi",
    "figure-3-slurm": "slurm", "figure-3-swarm": "swarm",
}  # fmt: skip
UPTO = (1, 2, 3, 4, 5, 7)
"""The stages up to which Figure 3 is drawn: a lesson has it as far as the reader knows it."""
GROWING = [f"figure-3-upto-{stage}{ending}" for stage in UPTO for ending in ("", ".ko")]
FIGURE_3 = ["figure-3", "figure-3.ko", *GROWING]
SVG = "{http://www.w3.org/2000/svg}"


def drawn(minirun: Program, name: str, figure: str = "3", *more: str) -> str:
    done = minirun("replay", name, "--figure", figure, "--svg", "-", *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_picture_has_its_recording() -> None:
    kept = {path.stem for path in (ROOT / "tutorials/pictures").iterdir()}
    assert kept == {*PICTURES, *GROWING, "first-run"}, "the last one: test_first_run.py"
    made = re.findall(
        r"replay (\S+) --figure (\d) --svg tutorials/pictures/(\S+)\.svg", _makefile()
    )
    assert {name: recording for recording, _, name in made} == PICTURES
    for recording, number, name in made:
        assert name.removesuffix(".ko").removesuffix(f"-{recording}") == f"figure-{number}"


def _makefile() -> str:
    return (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("name", PICTURES)
def test_it_is_what_make_pictures_draws(minirun: Program, name: str) -> None:
    kept = (ROOT / f"tutorials/pictures/{name}.svg").read_text()
    figure, _, language = name.partition(".")
    spoken = ("--lang", language or "en")
    assert kept == drawn(minirun, PICTURES[name], figure[7], *spoken), "make pictures"


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("stage", UPTO)
def test_it_grows_stage_by_stage(minirun: Program, stage: int, language: str) -> None:
    """What is known is drawn as in the whole picture; each later stage is there, and faint."""
    ending, spoken = "" if language == "en" else f".{language}", ("--lang", language)
    kept = (ROOT / f"tutorials/pictures/figure-3-upto-{stage}{ending}.svg").read_text()
    assert kept == drawn(minirun, "gpus-0-1", "3", "--upto", str(stage), *spoken), "make pictures"
    assert str(stage) in re.findall(r"for stage in ([\d ]+);", _makefile())[0].split()
    tree = ElementTree.fromstring(kept)
    faint = [each for each in tree.iter(f"{SVG}g") if each.get("opacity") == ".18"]
    later = {each.text for group in faint for each in group.iter(f"{SVG}text")}
    numbers = {str(number) for number in range(1, 8)}
    assert later & numbers == {str(number) for number in range(stage + 1, 8)}
    assert {*words(kept)} == {*words(drawn(minirun, "gpus-0-1", "3", *spoken))}


TEXTS = """[...document.querySelectorAll('text')].map(one => {
    const r = one.getBBox(); return [one.textContent, r.x, r.y, r.x + r.width, r.y + r.height] })"""


@pytest.mark.parametrize("name", FIGURE_3)
def test_no_stages_name_is_cut(name: str) -> None:
    said = words((ROOT / f"tutorials/pictures/{name}.svg").read_text())
    language = "ko" if name.endswith(".ko") else "en"
    for topic in texts_of_stages("stages", language).values():
        assert any(text.startswith(f"{topic.title} · ") for text in said), topic.title
    assert not [text for text in said if "…" in text and not text.startswith("… ")]


@pytest.mark.parametrize("name", sorted(path.stem for path in KEPT.iterdir()))
def test_no_text_leaves_the_picture(browser: Browser, name: str) -> None:
    """As a browser draws it: within the sheet, and on no other text."""
    browser.open(ROOT / f"tutorials/pictures/{name}.svg")
    sheet = browser.run("(b => [b.x, b.y, b.x + b.width, b.y + b.height])"
                        "(document.documentElement.viewBox.baseVal)")  # fmt: skip
    texts = browser.run(TEXTS)
    assert len(texts) > 10
    for text, left, top, right, bottom in texts:
        inside = left >= sheet[0] and right <= sheet[2] and top >= sheet[1] and bottom <= sheet[3]
        assert inside, text
    for at, (text, left, top, right, bottom) in enumerate(texts):
        for other, left2, top2, right2, bottom2 in texts[at + 1 :]:
            beside = left >= right2 or left2 >= right or top >= bottom2 - 3 or top2 >= bottom - 3
            assert beside, (text, other)


def test_korean_pages_have_korean_pictures() -> None:
    count = 0
    for page in (ROOT / "tutorials").rglob("*.ko.md"):
        found = re.findall(r"pictures/(figure-[34][^)]*)", page.read_text())
        assert all(name.endswith(".ko.svg") for name in found), page
        count += len(found)
    assert count > 15


def words(picture: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_figure_2_says_what_stage_4_reads_and_makes(minirun: Program, tmp_path: Path) -> None:
    picture = drawn(minirun, "gpus-0-1", "2")
    (found,) = read(recordings.path("gpus-0-1"))
    argv = next(e.args["argv"] for e in found.events if e.name == "nvidia-container-cli")
    said = words(picture)
    assert said[1] == "NVIDIA_VISIBLE_DEVICES=0,1"
    assert said[said.index("nvidia-container-cli") + 1 :][: len(argv)] == argv
    assert picture.count("<path") == 4, "device, two capabilities, pid"
    other = tmp_path / "other.jsonl"
    other.write_text(recordings.path("gpus-0-1").read_text().replace('"0,1"', '"<all>"'))
    assert words(drawn(minirun, str(other), "2"))[1] == "NVIDIA_VISIBLE_DEVICES=<all>"


def test_figure_4_says_what_stage_1_and_the_hooks_do(minirun: Program) -> None:
    said = words(drawn(minirun, "cdi", "4", "--lang", "en"))
    (found,) = read(recordings.path("cdi"))
    made = [
        each.args["path"] for each in found.events
        if each.stage == 1 and each.name == "mknodat" and "nvidia" in str(each.args["path"])
    ]  # fmt: skip
    nodes = next(text for text in said if text.startswith("init makes "))
    assert nodes.startswith(f"init makes {len(made)} nodes: nvidia0, nvidia1, …")
    assert f"{len(made)} rules for them in the cgroup" in said
    ran = [
        each.args["argv"][2] for each in found.events
        if each.stage == 7 and each.kind == "exec" and each.actor == "hook"
    ]  # fmt: skip
    assert [name for text in said if (name := text.partition(" · ")[0]) in ran] == ran
    assert said.index("4, 5") + 1 == said.index("nothing to do")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("plain", "--figure", "1", "--svg", "-"), "no container of this recording has a GPU"),
        (("plain", "--figure", "2", "--svg", "-"), "stage 4 of this recording read no config.json"),
        (("plain", "--figure", "4", "--svg", "-"), "the GPUs of this recording did not come by"),
        (("plain", "--figure", "5", "--svg", "-"), "invalid --figure '5'"),
        (("plain", "--figure", "1"), "--figure is for --svg FILE"),
        (("plain", "--upto", "3"), "--upto is for --svg FILE, of Figure 3"),
        (("plain", "--upto", "8", "--svg", "-"), "invalid --upto '8'"),
    ],
)
def test_no_such_picture(minirun: Program, words: tuple[str, ...], text: str) -> None:
    done = minirun("replay", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"minirun: {text}") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["plain", "gpus-0-1", "figure-1", "failing-hook"])
def test_what_the_picture_says(minirun: Program, name: str) -> None:
    tree = ElementTree.fromstring(drawn(minirun, name))
    title = tree.find(f"{SVG}title")
    assert title is not None and title.text
    words = {each.text for each in tree.iter(f"{SVG}text")}
    found = read(recordings.path(name))
    for each in found:
        assert f"The making of container {each.id}: stage 1, runtime" in title.text
        assert {str(stage.number) for stage in each.stages} <= words
        if len(found) > 1:
            assert each.id in words
    assert not list(tree.iter(f"{SVG}script"))


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_light_and_on_dark_paper(browser: Browser, scheme: str, name: str) -> None:
    browser.open(ROOT / f"tutorials/pictures/{name}.svg", scheme=scheme)
    paper = browser.pixel(3, 3)
    assert (sum(paper) > 600) == (scheme == "light")


@pytest.mark.parametrize("name", [*PICTURES, *GROWING, "first-run"])
def test_a_page_shows_it_with_words_for_who_cannot_see_it(name: str) -> None:
    pages = [ROOT / "README.md", *(ROOT / "tutorials").rglob("*.md")]
    alts = [
        alt
        for page in pages
        for alt, path in re.findall(r"!\[([^]]+)\]\(([^)]+)\)", page.read_text())
        if path.endswith(f"pictures/{name}.svg") and (page.parent / path).is_file()
    ]
    assert alts
    assert all(len(alt) > 60 for alt in alts)


@pytest.mark.parametrize("name", PICTURES)
def test_no_text_leaves_the_picture_or_lies_on_another(browser: Browser, name: str) -> None:
    browser.open(ROOT / f"tutorials/pictures/{name}.svg", width=984)
    assert browser.run(OVERLAPS) == []


OVERLAPS = """(() => {
    const view = document.rootElement.getBoundingClientRect();
    const texts = [...document.querySelectorAll('text')].filter(one => one.textContent.trim());
    const found = [];
    const boxes = texts.map(one => one.getBoundingClientRect());
    boxes.forEach((a, i) => {
        if (a.left < view.left || a.right > view.right) found.push(texts[i].textContent);
        boxes.slice(i + 1).forEach((b, j) => {
            if (a.left < b.right - 1 && b.left < a.right - 1 &&
                a.top + 3 < b.bottom - 3 && b.top + 3 < a.bottom - 3)
                found.push(texts[i].textContent + ' on ' + texts[i + 1 + j].textContent);
        });
    });
    return found;
})()"""
