"""Builds the site: lessons, notebooks with outputs, reference, recordings; it needs no network.

    make site                        build/site/index.html, for both languages
    make site LESSONS="07-devices"   these lessons only, and no JupyterLite

Its source is a tree for each language, in the folders of this repository, so that the relative
links of the texts hold. Sphinx makes the pages: MyST reads Markdown as GitHub does, and furo needs
no font, script or picture of another host. What is a link to another language, or to a page that
Sphinx did not make, becomes plain HTML. links.py looks at every link of what came out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from minirun import recordings
from tutorials.publish import links, lite, played
from tutorials.publish.notebooks import LANGUAGES, ROOT, lessons

OUT = ROOT / "build" / "site"
PAGES = Path(__file__).with_name("pages")
WORDS = {
    "en": ("minirun: a course on containers and GPUs", "Lessons", "The companion",
           "Notebooks, with their outputs", "Reference", "Recordings",
           "Recorded starts, on pages of their own"),
    "ko": ("minirun: 컨테이너와 GPU 강의", "수업", "코드 해설", "출력이 있는 노트북", "참고",
           "기록", "기록된 시작, 각각 한 페이지로"),
}  # fmt: skip
IN_BROWSER = {
    "en": "The notebooks in this browser, with nothing to install: JupyterLite, from a web server",
    "ko": "설치 없이 이 브라우저에서 노트북 실행하기: JupyterLite, 웹 서버에서",
}
NAMES = {"en": "English", "ko": "한국어"}
CONTENTS = "book/README"
"""The companion's first page; the English one has no language in its name."""
REFERENCE = (
    "installing", "watching", "gpus", "containers", "images", "commands", "api", "events",
    "glossary", "spec-conformance", "cgroup-v2",
)  # fmt: skip
_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"^(`{3,}).*?^\1`*\s*$", re.MULTILINE | re.DOTALL)


def main() -> int:
    """Build it, check it, and say what there is."""
    chosen = sys.argv[1:]
    apart = OUT.with_name("lite")
    shutil.rmtree(apart, ignore_errors=True)
    if not chosen:
        try:
            lite.build(apart)
        except OSError as error:
            print(f"JupyterLite is left out: {error}", file=sys.stderr)
    build(OUT, chosen or lessons(), apart if apart.exists() else None)
    found = links.look(OUT)
    print(f"{OUT}/index.html: {found}")
    for line in found.broken:
        print(f"broken: {line}", file=sys.stderr)
    return 1 if found.broken else 0


def build(out: Path, chosen: list[str], jupyterlite: Path | None = None) -> None:
    """Build the site of these lessons in an empty folder; JupyterLite is moved into it.

    Raises CalledProcessError.
    """
    sources = out.with_name(f"{out.name}-source")
    for folder in (out, sources):
        shutil.rmtree(folder, ignore_errors=True)
    with ThreadPoolExecutor(len(LANGUAGES)) as pool:
        lite_too = jupyterlite is not None
        list(pool.map(lambda each: one_language(out, sources, each, chosen, lite_too), LANGUAGES))
    shutil.copy(PAGES / "index.html", out)
    if jupyterlite:
        shutil.move(jupyterlite, out / "lite")
    shutil.rmtree(sources)


def one_language(
    out: Path, sources: Path, language: str, chosen: list[str], lite_too: bool
) -> None:
    """Gather the tree of one language, and let Sphinx make its pages."""
    tree, extra = sources / language, sources / f"{language}-extra"
    texts = [text_of(name, language) for name in (*chosen, *companion())]
    texts += [f"tutorials/reference/{name}.md" for name in (*REFERENCE, "engines/README")]
    for path in texts:
        put(tree, path, (ROOT / path).read_text(encoding="utf-8"), language, chosen)
    for name, page in zip(chosen, played.pages(chosen, language), strict=True):
        put(tree, f"notebooks/{language}/{name}.md", page, language, chosen)
    put(tree, "index.md", index(language, chosen, lite_too), language, chosen)
    record(extra / "recordings", language)
    words = ["-D", f"language={language}", "-D", f"html_extra_path={extra}"]
    words += ["-c", str(PAGES), "-W", "--keep-going"]
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-E", *words, tree, out / language],
        check=True,
    )
    for left in (".doctrees", ".buildinfo", "objects.inv", "_sources"):
        shutil.rmtree(out / language / left, ignore_errors=True)
        (out / language / left).unlink(missing_ok=True)


def put(tree: Path, path: str, text: str, language: str, chosen: list[str]) -> None:
    """Write one page of the tree, with what it links to."""
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    pieces, end = [], 0
    for code in [*_CODE.finditer(text), None]:
        between = text[end : code.start() if code else None]
        pieces.append(_LINK.sub(lambda link: linked(link, tree, path, language, chosen), between))
        if code:
            pieces.append(code[0])
            end = code.end()
    (tree / path).write_text("".join(pieces), encoding="utf-8")


def linked(link: re.Match[str], tree: Path, path: str, language: str, chosen: list[str]) -> str:
    """Return a link as it has to be in the site; a file that it leads to is put into the tree."""
    target, _, anchor = link["target"].partition("#")
    if not target or target.startswith(("http:", "https:", "mailto:")):
        return link[0]
    there = os.path.normpath(os.path.join(os.path.dirname(path), target))
    if there.startswith("recordings/"):
        return f'<a href="{target}">{link["text"]}</a>'
    if (page := page_of(there, chosen)) is not None:
        other, file = page
        if other == language:
            name = os.path.relpath(file, os.path.dirname(path))
            return f"[{link['text']}]({name}{'#' + anchor if anchor else ''})"
        up = "../" * (path.count("/") + 1)
        return f'<a href="{up}{other}/{file[:-3]}.html">{link["text"]}</a>'
    if (ROOT / there).is_dir() and (ROOT / there / "README.md").exists():
        return f"[{link['text']}]({target.rstrip('/')}/README.md)"
    if re.fullmatch(r"tutorials/reference/(.*/)?[\w-]+\.md", there):
        return link[0]
    if (ROOT / there).is_file() and not there.endswith((".md", ".ipynb")):
        (tree / there).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / there, tree / there)
        return link[0]
    return link["text"]  # no page of this site


def companion() -> list[str]:
    """Return the names of the companion's pages: book/README, then the chapters in their order."""
    chapters = (ROOT / "tutorials/book").glob("*.en.md")
    return [CONTENTS, *sorted(f"book/{path.name[:-6]}" for path in chapters)]


def text_of(name: str, language: str) -> str:
    """Return the path of a lesson, or of a page of the companion."""
    ending = ".md" if (name, language) == (CONTENTS, "en") else f".{language}.md"
    return f"tutorials/{name}{ending}"


def page_of(there: str, chosen: list[str]) -> tuple[str, str] | None:
    """Return language and file of the lesson or notebook at a path; None if there is no page."""
    lesson = re.fullmatch(r"tutorials/(?P<name>[\w/-]+)(?:\.(?P<language>en|ko))?\.md", there)
    notebook = re.fullmatch(r"notebooks/(?P<language>en|ko)/(?P<name>[\w-]+)\.ipynb", there)
    found = lesson or notebook
    if not found or found["name"] not in (*chosen, *companion()):
        return None
    return found["language"] or "en", there.replace(".ipynb", ".md")


def record(folder: Path, language: str) -> None:
    """Write the page of each recorded start."""
    folder.mkdir(parents=True)
    for name in recordings.RECORDINGS:
        argv = [sys.executable, "-m", "minirun", "--lang", language, "replay", name, "--html"]
        subprocess.run([*argv, folder / f"{name}.html"], check=True, stdout=subprocess.DEVNULL)


def index(language: str, chosen: list[str], lite_too: bool) -> str:
    """Return the first page: lists of all that there is."""
    title, *captions, told = WORDS[language]
    pages = (
        [text_of(name, language).removesuffix(".md") for name in chosen],
        [text_of(name, language).removesuffix(".md") for name in companion()],
        [f"notebooks/{language}/{name}" for name in chosen],
        [f"tutorials/reference/{name}" for name in (*REFERENCE, "engines/README")],
    )
    other = next(each for each in LANGUAGES if each != language)
    rows = [f"# {title}", f'<a href="../{other}/index.html">{NAMES[other]}</a>']
    if lite_too:
        where = f'<a href="../lite/lab/index.html">{IN_BROWSER[language]}</a>'
        rows.append(f"{where} (`python3 -m http.server -d build/site`)")
    for caption, files in zip(captions, pages, strict=False):
        listed = "\n".join(files)
        rows.append(f"```{{toctree}}\n:caption: {caption}\n:maxdepth: 1\n\n{listed}\n```")
    rows.append(f"## {captions[-1]}\n\n{told}:")
    for name, about in recordings.RECORDINGS.items():
        rows.append(f"- [{name}](recordings/{name}.html): {about}")
    return "\n\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.exit(main())
