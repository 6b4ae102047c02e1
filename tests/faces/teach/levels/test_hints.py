"""The hint for a finding goes by the call that failed and its error, in any language's words."""

from __future__ import annotations

import errno

import pytest

from minirun.core.keeping.settings import LANGUAGES
from minirun.faces.knowledge.texts import table
from minirun.faces.teach.levels import programs

SAID = [
    ("command-not-run", "OSError: [Errno 16] umount: Device or resource busy: '.'", "umount EBUSY"),
    ("command-not-run", "level 2: umount of the old root: device or resource busy", "umount EBUSY"),
    ("create", "error 1 umount: EBUSY", "umount EBUSY"),
    ("gpu-nodes", "setns: invalid argument", "setns EINVAL"),
    ("command-not-run", "mount overlay on /run/x/rootfs: Invalid argument", "overlay EINVAL"),
    ("command-not-run", "mount proc on /run/x/proc: No such file or directory", "mount ENOENT"),
    ("command-not-run", "Os { code: 1, message: \"Operation not permitted\" }",
     "EPERM"),
    ("hostname", "EPERM", ""),
    ("command-not-run", "exit status 137", ""),
    ("unknown-gpu", "", ""),
]  # fmt: skip
"""A finding, what the program has said, and the row of the table; "" is the finding's own hint."""


@pytest.mark.parametrize(("key", "said", "row"), SAID)
def test_a_hint(key: str, said: str, row: str) -> None:
    own = programs.findings()[key].hint
    assert programs.hint(key, said) == (table("levels", "en")["error"][row] if row else own)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_row_is_of_an_error_that_there_is(language: str) -> None:
    rows = table("levels", language)["error"]
    assert list(rows) == list(table("levels", "en")["error"])
    for name, text in rows.items():
        assert name.split()[-1] in errno.errorcode.values() and text, name
