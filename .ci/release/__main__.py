"""Makes a release: .ci/release VERSION --depends PACKAGE... --recommends PACKAGE...

The version is written to minirun/__init__.py and CHANGELOG.md, and a wheel, an sdist and a .deb are
built of the tree into build/release/. If that fails, both files are as before. Nothing is
committed, tagged or pushed. SOURCE_DATE_EPOCH names another day than today, to build one again.

    changelog   the version, and what CHANGELOG.md says
    deb         the .deb, by dpkg-deb
"""

import argparse
import datetime
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP)]

import changelog  # noqa: E402
import deb  # noqa: E402

PLACE = TOP / "build/release"
DAY = 24 * 60 * 60


def git(*words: str) -> str:
    """Return what git prints. Raises RefusedError if it fails."""
    done = subprocess.run(["git", *words], cwd=TOP, capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip() or "no reason given").splitlines()[0]
        raise changelog.RefusedError(f"git {words[0]}: {why}")
    return done.stdout


def run(module: str, *words: str) -> None:
    """Run a module of Python's; what it prints is shown if it fails, in CalledProcessError."""
    argv = [sys.executable, "-m", module, *words]
    done = subprocess.run(
        argv, cwd=TOP, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        sys.stderr.write(done.stdout)
        done.check_returncode()


def day() -> tuple[datetime.date, int]:
    """Return the release's day, and its begin in seconds since 1970, both of UTC.

    Raises RefusedError if SOURCE_DATE_EPOCH, a moment of it, is no number.
    """
    word = os.environ.get("SOURCE_DATE_EPOCH") or str(int(time.time()))
    if not (word.isascii() and word.isdecimal() and len(word) < 12):
        raise changelog.RefusedError(f"SOURCE_DATE_EPOCH={word} is no number of seconds")
    epoch = int(word) // DAY * DAY
    return datetime.datetime.fromtimestamp(epoch, datetime.UTC).date(), epoch


def checked(version: str, date: datetime.date) -> dict[Path, str]:
    """Return the files that a release changes, with their new texts. Raises RefusedError."""
    changelog.numbers(version)
    if changed := git("status", "--porcelain").splitlines():
        some = f"{changed[0][3:]}{', …' if changed[1:] else ''}"
        raise changelog.RefusedError(f"uncommitted changes: {some} (git status)")
    news, place = TOP / "CHANGELOG.md", TOP / changelog.PLACE
    return {
        news: changelog.released(news.read_text(), version, date),
        place: changelog.with_version(place.read_text(), version),
    }


def build(depends: list[str], recommends: list[str], epoch: int) -> None:
    """Build all three into build/release/. Raises CalledProcessError, OSError."""
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    shutil.rmtree(TOP / "minirun.egg-info", ignore_errors=True)  # an older one's list of files
    run("build", "--outdir", str(PLACE))  # the wheel is built out of the sdist
    run("tutorials.publish.man")
    (wheel,) = PLACE.glob("*.whl")
    maintainer = git("log", "-1", "--format=%an <%ae>").strip()
    deb.Package(TOP, wheel, maintainer, epoch).build(PLACE, depends, recommends)


def main() -> int:
    """Do it."""
    parser = argparse.ArgumentParser(prog="make release", description=__doc__.splitlines()[0])
    parser.add_argument("version")
    parser.add_argument("--depends", nargs="*", default=[])
    parser.add_argument("--recommends", nargs="*", default=[])
    options = parser.parse_args()
    before: dict[Path, str] = {}
    try:
        date, epoch = day()
        files = checked(options.version, date)
        before = {path: path.read_text() for path in files}
        for path, text in files.items():
            path.write_text(text)
        build(options.depends, options.recommends, epoch)
    except BaseException as error:
        for path, text in before.items():
            path.write_text(text)
        if isinstance(error, changelog.RefusedError | subprocess.CalledProcessError | OSError):
            print(f"make release: {error}", file=sys.stderr)
            return 1
        raise
    for path in sorted(PLACE.iterdir()):
        print(f"{path.stat().st_size / 1e6:5.1f} MB  {path.relative_to(TOP)}")
    print("To publish it, after a look at `git diff`:")
    print(f"    git commit -a -m 'Version {options.version}'")
    print(f"    git tag -a v{options.version} -m 'Version {options.version}'")
    return 0


if __name__ == "__main__":
    sys.exit(main())
