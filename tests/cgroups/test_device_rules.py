"""Device rules by behaviour: random lists, a real process, real nodes, both kernel interfaces.

The reference below is what runtime-spec says, in six lines; the kernel has to agree with it.
"""

import errno

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgroups.conftest import add
from minirun.cgroups import devicefilter, reading, ruleset
from minirun.cgroups.rules import DeviceRule
from minirun.core.errors import ConfigError
from night import examples

NODES = [
    ("c", 1, 3), ("c", 1, 5), ("c", 1, 7), ("c", 5, 2), ("c", 195, 0), ("c", 195, 1),
    ("b", 1, 3), ("b", 195, 0),
]  # fmt: skip
REQUESTS = [(*node, access) for node in NODES for access in ("r", "w", "rw", "m")]

RULES = st.builds(
    DeviceRule,
    allow=st.booleans(),
    kind=st.sampled_from("acb"),
    major=st.sampled_from([None, 1, 5, 195]),
    minor=st.sampled_from([None, 0, 1, 3]),
    access=st.sampled_from(["r", "w", "m", "rw", "rm", "wm", "rwm"]),
)
PERMISSIONS = st.builds(
    lambda rule, kind: rule._replace(allow=True, kind=kind), RULES, st.sampled_from("cb")
)
LISTS = st.lists(RULES, max_size=8)
LISTS_WITH_A_DEFAULT = st.builds(
    lambda allow, rest: [DeviceRule(allow, "a", None, None, "rwm"), *rest], st.booleans(), LISTS
)
ONE_SIDED = st.builds(
    lambda allow, rest: [
        DeviceRule(allow, "a", None, None, "rwm"),
        *(rule._replace(allow=not allow) for rule in rest),
    ],
    st.booleans(),
    LISTS,
)
"""A default and exceptions from it: what version 1 can hold, always."""

BOUNDED = settings(
    max_examples=examples(150),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def speaks_of(rule, kind, major, minor):
    return (
        rule.kind in ("a", kind) and rule.major in (None, major) and rule.minor in (None, minor)
    )  # fmt: skip


def permitted(rules, kind, major, minor, access):
    """Decide each letter by the last rule that speaks of it; no rule means no."""
    for letter in access:
        verdicts = [
            r.allow for r in rules if speaks_of(r, kind, major, minor) and letter in r.access
        ]
        if not (verdicts and verdicts[-1]):
            return False
    return True


def expected(rules):
    return [permitted(rules, *request) for request in REQUESTS]


def seen(prober):
    return [number != errno.EPERM for number in prober.try_all(REQUESTS)]


@pytest.fixture
def inside(open_cgroup, prober):
    """Return a function that makes a cgroup of a version with the prober in it."""

    def make(version):
        cgroup = open_cgroup(version)
        cgroup.create()
        add(cgroup, prober.process.pid)
        return cgroup

    return make


def test_v2_agrees_with_the_reference(inside, prober):
    cgroup = inside("v2")

    @BOUNDED
    @given(st.one_of(LISTS, LISTS_WITH_A_DEFAULT))
    def check(rules):
        cgroup.set_device_rules(rules)
        assert seen(prober) == expected(rules)
        told = cgroup.effective_device_rules()
        assert told == reading.effective(rules)
        assert expected(told) == expected(rules)

    check()


def test_v1_agrees_with_the_reference_or_refuses(inside, prober):
    cgroup = inside("v1")
    held = 0

    @BOUNDED
    @given(st.one_of(LISTS, LISTS_WITH_A_DEFAULT, ONE_SIDED))
    def check(rules):
        nonlocal held
        before = cgroup.effective_device_rules()
        try:
            cgroup.set_device_rules(rules)
        except ConfigError as error:
            assert str(error).startswith("linux.resources.devices: ")
            assert cgroup.effective_device_rules() == before
            return
        held += 1
        assert seen(prober) == expected(rules)

    check()
    assert held > BOUNDED.max_examples / 2


@BOUNDED
@given(ONE_SIDED)
def test_v1_never_refuses_a_default_with_exceptions(rules):
    ruleset.as_exceptions(rules)


def test_v1_holds_what_the_kernel_holds_after_plain_writes(inside, prober):
    """For permissions alone, writing them one by one is the kernel's own reading of the list."""
    cgroup = inside("v1")
    directory = next(d for d in cgroup.directories() if "/devices/" in d)

    def write(file, text):
        with open(f"{directory}/devices.{file}", "w") as out:
            out.write(text)

    @settings(BOUNDED, max_examples=examples(50))
    @given(st.lists(PERMISSIONS, max_size=8))
    def check(rules):
        write("deny", "a")
        for rule in rules:
            write("allow", str(rule))
        plain = seen(prober)
        cgroup.set_device_rules(rules)
        ours = seen(prober)
        # an open for both, with r from one rule and w from another, is all that we add
        added = [r for r, a, b in zip(REQUESTS, plain, ours, strict=True) if a != b]
        assert all(request[3] == "rw" for request in added)
        assert ours == expected(rules)

    check()


@BOUNDED
@given(LISTS)
def test_a_program_reads_back_as_its_rules(rules):
    assert devicefilter.decode(devicefilter.assemble(rules)) == reading.effective(rules)


@BOUNDED
@given(LISTS)
def test_leaving_out_what_is_overridden_changes_nothing(rules):
    assert expected(reading.effective(rules)) == expected(rules)


BASE = [
    ruleset.ALL._replace(allow=False),
    *map(ruleset.parse, ("c *:* m", "b *:* m", "c 1:3 rwm", "c 1:5 rwm")),
]
GPUS = [ruleset.parse("c 195:255 rw"), ruleset.parse("c 195:0 rw")]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_gpu_that_is_let_in_gives_enxio_and_its_neighbour_eperm(inside, prober, version):
    cgroup = inside(version)
    cgroup.set_device_rules(BASE)
    assert prober.try_one("c", 195, 0, "rw") == errno.EPERM
    cgroup.allow_devices(GPUS)
    assert prober.try_one("c", 195, 0, "rw") == errno.ENXIO  # allowed, and no driver behind it
    assert prober.try_one("c", 195, 2, "rw") == errno.EPERM
    assert prober.try_one("c", 1, 3, "rw") == 0
    assert prober.try_one("c", 195, 2, "m") == 0  # the base lets every node be made
    assert set(cgroup.effective_device_rules()) == {*BASE[1:], *GPUS}


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_rw_does_not_let_a_node_be_made(inside, prober, version):
    cgroup = inside(version)
    cgroup.set_device_rules([ruleset.ALL._replace(allow=False), *GPUS])
    assert prober.try_one("c", 195, 0, "rw") == errno.ENXIO
    assert prober.try_one("c", 195, 0, "m") == errno.EPERM


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_an_empty_list_denies_everything(inside, prober, version):
    cgroup = inside(version)
    cgroup.set_device_rules([])
    assert set(prober.try_all(REQUESTS)) == {errno.EPERM}
    assert cgroup.effective_device_rules() == []
