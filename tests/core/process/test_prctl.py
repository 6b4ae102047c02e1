"""prctl(2): by python-prctl what that knows, by libc the rest; the same with either."""

import errno
import os
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from minirun.core import events
from minirun.core.kernel import process

CALLS = [
    (lambda: process.prctl(process.PR_SET_KEEPCAPS, 1), "KEEPCAPS", True),
    (lambda: process.prctl(process.PR_SET_PDEATHSIG, 9), "PDEATHSIG", True),
    (lambda: process.become_named("minirun:test"), "NAME", True),
    (lambda: process.prctl(process.PR_CAP_AMBIENT, 4), "PR_CAP_AMBIENT", False),
]


def in_child(body: Callable[[], object]) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            body()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.fixture(params=["python-prctl", "libc"])
def maker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "libc":
        monkeypatch.setattr(process, "_prctl", None)
    elif process._prctl is None:
        pytest.skip("python-prctl is not installed")
    return str(request.param)


@pytest.mark.parametrize(("call", "name", "known"), CALLS, ids=[name for _, name, _ in CALLS])
def test_who_makes_the_call(
    maker: str, monkeypatch: pytest.MonkeyPatch, call: Callable[[], None], name: str, known: bool
) -> None:
    by_libc, logged = [], []
    libc_prctl = process._libc_prctl
    monkeypatch.setattr(
        process, "_libc_prctl", lambda *args: by_libc.append(args) or libc_prctl(*args)
    )
    monkeypatch.setattr(events, "emit", lambda *args, **kw: logged.append((args, kw["ret"])))

    def body() -> None:
        call()
        assert bool(by_libc) == (maker == "libc" or not known)
        ((kind, event, args), ret) = logged[0]
        assert (kind, event, ret, len(logged)) == ("syscall", "prctl", 0, 1)
        assert args["option"].endswith(name)

    in_child(body)


def test_the_name(maker: str) -> None:
    def body() -> None:
        process.become_named("minirun:test")
        with open("/proc/self/comm") as file:
            assert file.read() == "minirun:test\n"

    in_child(body)


@pytest.mark.parametrize(
    ("option", "arg2"),
    [(process.PR_SET_NO_NEW_PRIVS, 0), (process.PR_CAPBSET_DROP, 63),
     (process.PR_SET_PDEATHSIG, 999), (process.PR_CAP_AMBIENT, 99), (9999, 0)],
)  # fmt: skip
def test_errors(maker: str, option: int, arg2: int) -> None:
    """What python-prctl refuses by ValueError, the kernel refuses."""
    with pytest.raises(OSError) as caught:
        process.prctl(option, arg2)
    code, text = errno.EINVAL, os.strerror(errno.EINVAL)
    assert (caught.value.errno, caught.value.strerror) == (code, text)


def test_an_error_of_the_kernel_from_python_prctl(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(process, "_prctl", SimpleNamespace(prctl=refuse))
    with pytest.raises(PermissionError) as caught:
        process.prctl(process.PR_CAPBSET_DROP, 3)
    assert (caught.value.errno, getattr(caught.value, "call", "")) == (errno.EPERM, "prctl")


def test_the_bounding_set(maker: str) -> None:
    assert process.in_bounding_set(0) == (os.geteuid() == 0)
    assert not process.in_bounding_set(63)
