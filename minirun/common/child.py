"""Work in a child, which answers, and ends with its work: a namespace that it enters is for good.

minirun.faces.doctor.attempts has such a child as well, with a time limit and words for each way to
end.
"""

from __future__ import annotations

import os

from minirun.core.keeping import jsonlite
from minirun.core.kernel import namespaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def errno_of(work: Callable[[], object], why: str) -> int:
    """Do some work in a child; return 0, or the errno of the OSError that ended it, else 1.

    `why`: for the event of clone3. Raises OSError if there is no child.
    """
    child, pidfd = namespaces.clone3(0, why=why)
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except OSError as error:
            status = error.errno or 1
        finally:
            os._exit(status)
    os.close(pidfd)
    return abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def answer_of(work: Callable[[], Any]) -> Any:
    """Return what `work` returns in a child, a value that JSON has; None if it fails there.

    Nothing is logged: for those who look at a container.
    """
    said, saying = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            os.close(said)
            os.write(saying, jsonlite.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(saying)
    with open(said, encoding="utf-8") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return jsonlite.loads(text) if text else None
