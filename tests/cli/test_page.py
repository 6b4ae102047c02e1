"""The page of all commands is what the parser says."""

import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "tutorials/reference/commands.md"
WRITER = "import sys; sys.path[:0] = sys.argv[1:]; import page; sys.stdout.write(page.text())"


def test_the_page_is_what_the_parser_says() -> None:
    argv = [sys.executable, "-c", WRITER, str(Path(__file__).parent)]
    written = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert PAGE.read_text() == written, "make reference writes it anew"
