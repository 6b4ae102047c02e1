"""The page of all commands is what the parser says."""

import subprocess
import sys

from tutorials.publish.reference.commands import PAGE

WRITER = "from tutorials.publish.reference import commands; print(commands.text(), end='')"


def test_the_page_is_what_the_parser_says() -> None:
    argv = [sys.executable, "-c", WRITER]
    written = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert PAGE.read_text() == written, "make reference writes it anew"
