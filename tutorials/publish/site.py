"""Builds the site: lessons, notebooks with outputs, reference, recordings; it needs no network.

    make site                        build/site/index.html, for both languages
    make site LESSONS="07-devices"   these lessons only, and no JupyterLite

Its source is a tree for each language, in the folders of this repository, so that the relative
links of the texts hold; contents.py says what is in it. Sphinx makes the pages: MyST reads Markdown
as GitHub does, and furo needs no font, script or picture of another host. What is a link to another
language, or to a page that Sphinx did not make, becomes plain HTML. links.py looks at every link of
what came out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from minirun.faces import recordings
from tutorials.publish import contents, in_tab, links, lite, played
from tutorials.publish.contents import Group
from tutorials.publish.notebooks import LANGUAGES, ROOT, chosen

OUT = ROOT / "build" / "site"
PAGES = Path(__file__).with_name("pages")
RECORDINGS = {
    "en": ("Recordings", "Recorded starts, on pages of their own"),
    "ko": ("기록", "기록된 시작, 각각 한 페이지로"),
}
LITE, TAB = "lite/lab/index.html", "tab/index.html"
BESIDE = {
    LITE: {
        "en": "The notebooks in this browser, with nothing to install: JupyterLite",
        "ko": "설치 없이 이 브라우저에서 노트북 실행하기: JupyterLite",
    },
    TAB: {
        "en": "minirun in this browser: a real Linux in an emulator, slow, and real",
        "ko": "이 브라우저에서 minirun 실행하기: 에뮬레이터 안의 진짜 Linux, 느리지만 진짜다",
    },
}
"""Pages that other programs make: the words of the link to them. They need a web server."""
NAMES = {"en": "English", "ko": "한국어"}


def main() -> int:
    """Build it, check it, and say what there is."""
    names = chosen(sys.argv[1:])
    apart = OUT.with_name("lite")
    shutil.rmtree(apart, ignore_errors=True)
    if not sys.argv[1:]:
        try:
            lite.build(apart)
        except OSError as error:
            print(f"JupyterLite is left out: {error}", file=sys.stderr)
    try:
        build(OUT, names, apart if apart.exists() else None)
    except ValueError as error:
        print(f"a cell of a notebook failed: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError:
        print("the site is not complete: why stands above", file=sys.stderr)
        return 1
    found = links.look(OUT)
    print(f"{OUT}/index.html: {found}")
    for line in found.broken:
        print(f"broken: {line}", file=sys.stderr)
    return 1 if found.broken else 0


def build(out: Path, names: list[str], jupyterlite: Path | None = None) -> None:
    """Build the site of these lessons in an empty folder; JupyterLite is moved into it.

    What `make tab` has put there is kept.

    Raises CalledProcessError; ValueError if a cell of a notebook fails.
    """
    sources = out.with_name(f"{out.name}-source")
    for folder in (*out.glob("*"), sources):
        if folder != out / "tab":
            shutil.rmtree(folder) if folder.is_dir() else folder.unlink(missing_ok=True)
    with ThreadPoolExecutor(len(LANGUAGES)) as pool:
        beside = [LITE] * (jupyterlite is not None) + [TAB] * (out / TAB).exists()
        list(pool.map(lambda each: one_language(out, sources, each, names, beside), LANGUAGES))
    shutil.copy(PAGES / "index.html", out)
    if jupyterlite:
        shutil.move(jupyterlite, out / "lite")
    shutil.rmtree(sources)


def one_language(
    out: Path, sources: Path, language: str, names: list[str], beside: list[str]
) -> None:
    """Gather the tree of one language, and let Sphinx make its pages. `beside`: those of BESIDE."""
    tree, extra = sources / language, sources / f"{language}-extra"
    texts = contents.texts(language, names)
    notebooks = [f"notebooks/{language}/{name}.ipynb" for name in names]
    lists = contents.groups(language, [*texts, *notebooks])
    first = {each.first: toctree(each.pages) for each in lists if each.is_text}
    for path in texts:
        text = (ROOT / path).read_text(encoding="utf-8") + first.get(path, "")
        text += in_tab.note(path, language) * (TAB in beside)
        put(tree, path, text, language, names)
    for path, text in zip(notebooks, played.pages(names, language), strict=True):
        put(tree, path, text, language, names)
    for each in lists:
        if not each.is_text:
            listed = toctree(each.pages, hidden=False)
            (tree / each.first).write_text(f"# {each.title}\n{listed}", encoding="utf-8")
    record(extra / "recordings", language)
    (tree / "recordings.md").write_text(recorded(language), encoding="utf-8")
    welcome(tree, lists, language, names, beside)
    words = ["-D", f"language={language}", "-D", f"html_extra_path={extra}"]
    words += ["-c", str(PAGES), "-W", "--keep-going"]
    words += ["-D", f"html_js_files={in_tab.SCRIPT}"] * (TAB in beside)
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-E", *words, tree, out / language],
        check=True,
    )
    for left in (".doctrees", ".buildinfo", "objects.inv", "_sources"):
        shutil.rmtree(out / language / left, ignore_errors=True)
        (out / language / left).unlink(missing_ok=True)


def put(
    tree: Path, path: str, text: str, language: str, names: list[str], as_page: str = ""
) -> None:
    """Write one page of the tree, with what it links to; `as_page`: there, not at `path`."""
    page = as_page or path.replace(".ipynb", ".md")
    (tree / page).parent.mkdir(parents=True, exist_ok=True)
    made = (
        contents.LINK.sub(lambda link: linked(link, tree, path, page, language, names), between)
        + code
        for between, code in contents.pieces(text)
    )
    (tree / page).write_text("".join(made), encoding="utf-8")


def linked(
    link: re.Match[str], tree: Path, path: str, page: str, language: str, names: list[str]
) -> str:
    """Return a link as it has to be in the site; a file that it leads to is put into the tree.

    `path`: where the text is in the repository; `page`: where it is in the tree. A link to a
    folder, or to a lesson that was not chosen, becomes its text; one that leads nowhere is left,
    and Sphinx sees it.
    """
    there = contents.target(path, link)
    if not there:
        return link[0]
    anchor = link["target"].partition("#")[1:]
    own = contents.language_of(there) or language
    if contents.is_page(there, own, names):
        file = there.replace(".ipynb", ".md")
        if own == language:
            name = os.path.relpath(file, os.path.dirname(page))
            return f"{link['picture']}[{link['text']}]({name}{''.join(anchor)})"
        up = "../" * (page.count("/") + 1)
        return f'<a href="{up}{own}/{file[:-3]}.html{"".join(anchor)}">{link["text"]}</a>'
    if there.endswith((".md", ".ipynb")):
        return link["text"] if (ROOT / there).is_file() else link[0]
    if (ROOT / there).is_file():
        (tree / there).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / there, tree / there)
        name = os.path.relpath(there, os.path.dirname(page))
        return f"{link['picture']}[{link['text']}]({name})"
    return link["text"] if (ROOT / there).is_dir() else link[0]


def toctree(pages: list[str], *, hidden: bool = True) -> str:
    """Return Sphinx's list of pages, which the margin shows; `hidden`: the page itself does not."""
    listed = "\n".join(f"/{page.rpartition('.')[0]}" for page in pages)
    return f"\n```{{toctree}}\n:maxdepth: 1\n{':hidden:' * hidden}\n\n{listed}\n```\n"


def record(folder: Path, language: str) -> None:
    """Write the page of each recorded start."""
    folder.mkdir(parents=True)
    for name in recordings.RECORDINGS:
        argv = [sys.executable, "-m", "minirun", "--lang", language, "replay", name, "--html"]
        subprocess.run([*argv, folder / f"{name}.html"], check=True, stdout=subprocess.DEVNULL)


def recorded(language: str) -> str:
    """Return the page that lists the recorded starts."""
    title, told = RECORDINGS[language]
    rows = [f"# {title}", f"{told}:"]
    rows += [
        f'- <a href="recordings/{name}.html">{name}</a>: {about}'
        for name, about in recordings.RECORDINGS.items()
    ]
    return "\n\n".join(rows) + "\n"


def welcome(
    tree: Path, lists: list[Group], language: str, names: list[str], beside: list[str]
) -> None:
    """Write the first page: what minirun is, for whom, where to begin; and the lists."""
    file = PAGES / f"welcome.{language}.md"
    path = str(file.relative_to(ROOT))
    other = next(each for each in LANGUAGES if each != language)
    text = file.read_text(encoding="utf-8")
    text += f'\n<a href="../{other}/index.html">{NAMES[other]}</a>\n'
    for page in beside:
        where = f'<a href="../{page}">{BESIDE[page][language]}</a>'
        text += f"\n{where} (`python3 -m http.server -d build/site`)\n"
    text += toctree([*(each.first for each in lists), "recordings.md"])
    put(tree, path, text, language, names, as_page="index.md")


if __name__ == "__main__":
    sys.exit(main())
