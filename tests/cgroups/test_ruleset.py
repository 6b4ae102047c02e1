"""The parts of rule lists that need no kernel."""

import sys

import pytest

from minirun.cgroups import devicefilter, ruleset
from minirun.cgroups.reading import effective, listing
from minirun.cgroups.rules import DeviceRule
from minirun.core.errors import ConfigError

NAMES = {("c", 195, n): f"/dev/nvidia{n}" for n in range(4)} | {("c", 195, 255): "/dev/nvidiactl"}


def rules(*lines):
    return [
        ruleset.parse(line.removeprefix("deny "))._replace(allow=not line.startswith("deny "))
        for line in lines
    ]


def test_the_listing_reads_as_shell_2():
    told = listing(rules("c 195:255 rw", "c 195:3 rw", "c 195:0 rw"), NAMES)
    assert told == [
        "c 195:255 rw # /dev/nvidiactl",
        "c 195:3 rw   # /dev/nvidia3",
        "c 195:0 rw   # /dev/nvidia0",
    ]


def test_the_listing_says_nothing_of_nodes_without_a_name_and_marks_denials():
    told = listing(rules("c *:* m", "c 1:3 rwm", "deny c 195:0 w", "deny b *:* r"), NAMES)
    assert told == ["c *:* m", "c 1:3 rwm", "c 195:0 w # denied /dev/nvidia0", "b *:* r   # denied"]
    assert listing([], {}) == []


def test_access_is_a_set_whatever_its_order():
    assert [ruleset.letters(ruleset.bits(text)) for text in ("mwr", "wr", "m", "")] == [
        "rwm", "rw", "m", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (["deny a *:* rwm", "c 1:3 r"], ["c 1:3 r"]),
        (["c 1:3 rw", "c 1:3 rw"], ["c 1:3 rw"]),
        (["c 1:3 rwm", "deny c *:* m"], ["c 1:3 rw", "deny c *:* m"]),
        (["c 10:229 rwm", "c *:* m"], ["c 10:229 rwm", "c *:* m"]),
        (["c 1:3 rwm", "deny c 1:* m", "c *:* m"], ["c 1:3 rwm", "c *:* m"]),
        (["c 1:3 rw", "a *:* rwm", "deny c 1:5 r"], ["a *:* rwm", "deny c 1:5 r"]),
        (["c 1:* rw", "c 1:3 r"], ["c 1:* rw", "c 1:3 r"]),
        (["c 1:3 r", "deny a *:* rwm"], []),
    ],
)
def test_what_has_no_effect_is_left_out(given, left):
    assert effective(rules(*given)) == rules(*left)


def test_halves_of_an_open_for_both_are_joined_for_version_1():
    default, exceptions = ruleset.as_exceptions(rules("c 1:* r", "c *:3 w"))
    assert not default
    assert exceptions == rules("c 1:* r", "c *:3 w", "c 1:3 rw")


def test_a_rule_for_all_kinds_of_some_number_becomes_two_for_version_1():
    """The kernel would take "a 10:200 rw" for everything."""
    _, exceptions = ruleset.as_exceptions([DeviceRule(True, "a", 10, 200, "rw")])
    assert exceptions == rules("c 10:200 rw", "b 10:200 rw")


def test_a_hole_is_refused_with_both_rules_named():
    with pytest.raises(ConfigError) as caught:
        ruleset.as_exceptions(rules("c 1:* rw", "deny c 1:3 w"))
    assert str(caught.value) == (
        "linux.resources.devices: deny 'c 1:3 w' would cut a hole into allow 'c 1:* rw',"
        " which cgroup v1 cannot hold"
    )


@pytest.mark.parametrize("line", ["", "c 1:3", "c 1 rw", "c x:y rw"])
def test_a_line_that_is_no_rule(line):
    with pytest.raises(ValueError, match=r".*"):
        ruleset.parse(line)


LISTS = {
    "permissions": lambda n: [DeviceRule(True, "c", i, 0, "rw") for i in range(n)],
    "both": lambda n: [DeviceRule(i % 2 == 0, "c", i, 0, "rw") for i in range(n)],
    "one number": lambda n: [DeviceRule(True, "c", i, None, "r") for i in range(n)],
    "the same": lambda n: [DeviceRule(True, "c", 1, i % 7, "rw") for i in range(n)],
    "wide denials": lambda n: [
        *(DeviceRule(True, "c", i, None, "r") for i in range(n // 2)),
        *(DeviceRule(False, "c", None, i, "w") for i in range(n // 2)),
    ],
    "halves": lambda n: [DeviceRule(True, "c", i // 2, 0, "rw"[i % 2]) for i in range(n)],
    "leading denials": lambda n: [DeviceRule(False, "c", i, 0, "rw") for i in range(n)],
}  # fmt: skip


def work(function, *args):
    """Count the calls that a function makes: the same number each time."""
    count = 0

    def called(*_):
        nonlocal count
        count += 1

    sys.setprofile(called)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize(
    "function",
    [effective, ruleset.as_exceptions, devicefilter.assemble],
    ids=["effective", "as_exceptions", "assemble"],
)
def test_twice_as_many_rules_are_twice_the_work(function, kind):
    small, large = (work(function, LISTS[kind](n)) for n in (500, 1000))
    assert small > 500
    assert large < 2.5 * small


def test_reading_a_program_is_work_for_each_instruction():
    small, large = (
        work(devicefilter.decode, devicefilter.assemble(LISTS["both"](n))) for n in (500, 1000)
    )
    assert large < 2.5 * small


def test_halves_with_too_many_nodes_in_common_are_refused():
    """Each pair would be an exception of its own."""
    given = [DeviceRule(True, "c", i, None, "r") for i in range(300)]
    given += [DeviceRule(True, "c", None, i, "w") for i in range(300)]
    with pytest.raises(ConfigError, match="more than 65536 sets of devices in common"):
        ruleset.as_exceptions(given)
