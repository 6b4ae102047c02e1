"""Capabilities: the table against the kernel's, and the five sets in a real process."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from minirun.core.kernel import process
from minirun.core.process import caps
from minirun.core.process.caps import NUMBERS, Sets

KINDS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
CHOWN, KILL, NET_RAW = (1 << NUMBERS[f"CAP_{name}"] for name in ("CHOWN", "KILL", "NET_RAW"))


def status(pid: int | str = "self") -> dict[str, int]:
    """The five sets of a process, as the kernel tells them."""
    rows = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {row[0][:-1]: int(row[1], 16) for row in rows if row[0][:-1] in KINDS}


def in_child(body: Callable[[], object]) -> dict[str, int]:
    """Run `body` in a child; return the child's sets afterwards."""
    said, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            body()
            os.write(tell, repr(status()).encode())
            code = 0
        except OSError as error:
            os.write(tell, str(error).encode())
        finally:
            os._exit(code)
    os.close(tell)
    with open(said) as file:
        text = file.read()
    assert os.waitpid(pid, 0)[1] == 0, text
    found: dict[str, int] = eval(text)
    return found


def test_the_table_is_as_long_as_the_kernels() -> None:
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    assert list(NUMBERS.values()) == list(range(41))
    assert last <= 40, "this kernel has capabilities that minirun does not know"


@pytest.mark.parametrize(
    ("name", "number"),
    [("CAP_CHOWN", 0), ("CAP_KILL", 5), ("CAP_SETPCAP", 8), ("CAP_NET_ADMIN", 12),
     ("CAP_SYS_ADMIN", 21), ("CAP_MKNOD", 27), ("CAP_AUDIT_WRITE", 29), ("CAP_SYSLOG", 34),
     ("CAP_BPF", 39), ("CAP_CHECKPOINT_RESTORE", 40)],
)  # fmt: skip
def test_numbers_are_those_of_linux_capability_h(name: str, number: int) -> None:
    assert NUMBERS[name] == number


def test_masks_and_names() -> None:
    assert caps.mask(["CAP_CHOWN", "CAP_KILL"]) == 0b100001
    assert caps.mask(["CAP_FROM_THE_FUTURE", "chown"]) == 0
    assert caps.names(0b100001) == ["CAP_CHOWN", "CAP_KILL"]
    assert caps.mask(caps.names((1 << 41) - 1)) == (1 << 41) - 1


def test_held_is_the_bounding_set() -> None:
    assert caps.held() == status()["CapBnd"]


def test_sets_are_cut_to_what_can_be_granted() -> None:
    wanted = {
        "bounding": ["CAP_CHOWN", "CAP_KILL"],
        "permitted": ["CAP_CHOWN", "CAP_KILL", "CAP_NET_RAW"],
        "effective": ["CAP_CHOWN", "CAP_SYS_ADMIN"], "inheritable": ["CAP_KILL"],
        "ambient": ["CAP_KILL", "CAP_CHOWN"],
    }  # fmt: skip
    sets = Sets(wanted, CHOWN | KILL)
    assert sets.bounding == CHOWN | KILL
    assert sets.permitted == CHOWN | KILL
    assert sets.effective == CHOWN, "never more than permitted"
    assert sets.inheritable == KILL
    assert sets.ambient == KILL, "never more than permitted and inheritable"
    assert sets.refused == ["CAP_CHOWN", "CAP_NET_RAW", "CAP_SYS_ADMIN"], "CHOWN as ambient"


@pytest.mark.parametrize("wanted", [{}, {"bounding": None, "effective": []}])
def test_nothing_wanted_is_nothing_held(wanted: dict[str, None]) -> None:
    sets = Sets(wanted, caps.held())
    assert (sets.bounding, sets.permitted, sets.effective) == (0, 0, 0)
    assert sets.refused == []

    def body() -> None:
        sets.drop_bounding()
        sets.apply()

    assert in_child(body) == dict.fromkeys(KINDS, 0)


def test_the_kernel_holds_what_was_applied() -> None:
    names = ["CAP_CHOWN", "CAP_KILL"]
    sets = Sets(
        {"bounding": [*names, "CAP_NET_RAW"], "permitted": names, "effective": ["CAP_KILL"],
         "inheritable": ["CAP_KILL"], "ambient": ["CAP_KILL"]},
        caps.held(),
    )  # fmt: skip

    def body() -> None:
        sets.drop_bounding()
        sets.apply()

    assert in_child(body) == {
        "CapBnd": CHOWN | KILL | NET_RAW, "CapPrm": CHOWN | KILL, "CapEff": KILL, "CapInh": KILL,
        "CapAmb": KILL,
    }  # fmt: skip


def test_ambient_ones_of_the_caller_are_cleared() -> None:
    """Else they would be given to the command of any user: capabilities(7)."""

    def body() -> None:
        everything = caps.held()
        process.capset(everything, everything, everything)
        process.prctl(process.PR_CAP_AMBIENT, process.PR_CAP_AMBIENT_RAISE, NUMBERS["CAP_KILL"])
        assert status()["CapAmb"] == KILL
        Sets({"bounding": ["CAP_KILL"], "permitted": ["CAP_KILL"]}, everything).apply()

    found = in_child(body)
    assert found["CapAmb"] == 0
    assert found["CapInh"] == 0
    assert found["CapPrm"] == KILL


def test_capabilities_survive_the_change_of_user_until_they_are_set() -> None:
    """The order of stage 7: KEEPCAPS, setuid, capset."""
    names = ["CAP_CHOWN"]
    sets = Sets({"permitted": names, "effective": names}, caps.held())

    def body() -> None:
        process.prctl(process.PR_SET_KEEPCAPS, 1)
        process.setuid(1000)
        sets.apply()

    found = in_child(body)
    assert (found["CapPrm"], found["CapEff"]) == (CHOWN, CHOWN)
