"""linux.seccomp that is older than the kernel, or denies what init itself has to do."""

from typing import Any

import pytest

from spec.conftest import Bundle


def denying(*names: str) -> dict[str, Any]:
    rule = {"names": list(names), "action": "SCMP_ACT_ERRNO"}
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}


@pytest.mark.parametrize("late", [False, True], ids=["privileged", "noNewPrivileges"])
@pytest.mark.parametrize("names", [("faccessat2", "close_range"), ("getcwd",)], ids="+".join)
def test_init_gets_past_its_own_filter(bundle: Bundle, names: tuple[str, ...], late: bool) -> None:
    changes = {"linux__seccomp": denying(*names), "process__noNewPrivileges": late}
    assert bundle.says(["/bin/echo", "it ran"], **changes) == "it ran"
    assert bundle.says(["echo", "it ran"], **changes) == "it ran"  # found in PATH


def test_what_nobody_may_execute_is_refused_all_the_same(bundle: Bundle) -> None:
    (bundle.rootfs / "note").write_text("no program")
    filter = denying("faccessat2", "close_range")
    said = bundle.refuses(["/note"], linux__seccomp=filter, process__noNewPrivileges=False)
    assert 'exec: "/note": permission denied' in said
