"""--gpus, and the selectors of devices."""

import pytest

from minirun.core.errors import GPUError, UsageError
from minirun.gpu.asked.select import choose, parse_gpus
from minirun.gpu.drivers import inventory
from minirun.gpu.inventory import Inventory

UUID = "GPU-aaaaaaaa-0000-4000-8000-000000000002"


@pytest.mark.parametrize(
    ("text", "devices"),
    (
        ("all", "all"), ("none", "none"), ("0", "0"), ("3", "3"), ("0,1", "0,1"), ("1,1,0", "1,0"),
        (UUID, UUID), ("MIG-bbbb-1", "MIG-bbbb-1"), ("3:0", "3:0"), ("0:47:00.0", "0:47:00.0"),
        ("47:00.0", "0:47:00.0"),
        ("device=0,1", "0,1"), ('"device=0,1"', "0,1"), ('device="0,1"', "0,1"),
    ),
)  # fmt: skip
def test_what_gpus_means(text: str, devices: str) -> None:
    selector = parse_gpus(text)
    assert (",".join(selector.devices), selector.amount, selector.exclusive) == (devices, 0, False)


@pytest.mark.parametrize(
    ("text", "devices", "amount"),
    (
        ("0,exclusive", ("0",), 0), ("exclusive,1,0", ("1", "0"), 0),
        ("all,exclusive", ("all",), 0), ("count=2,exclusive", (), 2),
        ("exclusive,count=1", (), 1), ("3:0,exclusive", ("3:0",), 0),
        ("device=0,exclusive", ("0",), 0), ('"device=0,exclusive"', ("0",), 0),
        ('"device=0,1","capabilities=utility",exclusive', ("0", "1"), 0),
    ),
)  # fmt: skip
def test_exclusive(text: str, devices: tuple[str, ...], amount: int) -> None:
    selector = parse_gpus(text)
    assert (selector.devices, selector.amount, selector.exclusive) == (devices, amount, True)


@pytest.mark.parametrize(
    ("text", "devices", "capabilities"),
    (
        ('device=0,"capabilities=compute,utility"', ("0",), ("compute", "utility")),
        ('"device=0,1","capabilities=gpu,video"', ("0", "1"), ("video",)),
        ("all,capabilities=utility", ("all",), ("utility",)),
        ('"capabilities=all",device=1', ("1",), ("all",)),
        ("count=all", ("all",), ()), ('"driver=nvidia,device=0,1"', ("0", "1"), ()),
        ('"capabilities=utility,device=0,1"', ("0", "1"), ("utility",)),
    ),
)  # fmt: skip
def test_the_keys_of_docker(
    text: str, devices: tuple[str, ...], capabilities: tuple[str, ...]
) -> None:
    selector = parse_gpus(text)
    assert (selector.devices, selector.capabilities) == (devices, capabilities)


def test_a_driver_and_a_count_in_one_quoted_word() -> None:
    assert parse_gpus('"driver=nvidia,count=2"').amount == 2


@pytest.mark.parametrize(
    "text",
    (
        "", ",", "0,", ",0", "-1", "+1", "1_0", "١", "²", "0x1", "00", "12345", " 0", "0 ,1", "1.5",
        "all,0", "0,none", "device=", "count=0", "count=-1", "count=two", "count=2,0", "count=",
        "device=0,device=1", "count=1,count=1", "count=1,device=0", "foo=1", '"0', "GPU-", "GPU-x!",
        "driver=amd,count=1", "count=all,device=0",
        "exclusive", "none,exclusive", "exclusive=0", "Exclusive", "device=exclusive",
        "0,exclusive,",
        "capabilities=utility", "0,capabilities=foo", "3:", "3:0:1", ":", "a:b:c.d.e", "\n0",
    ),
)  # fmt: skip
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_gpus(text)
    assert str(caught.value).startswith("--gpus")
    assert "\n" not in caught.value.line()


@pytest.mark.parametrize(
    ("devices", "numbers"),
    (
        (("all",), [0, 1, 2, 3]), (("1", "0", "1"), [1, 0]), ((UUID.lower(),), [2]),
        ((UUID.upper(),), [2]), (("0:47:00.0",), [2]), (("00000000:47:0.0",), [2]),
        (("0:47:00",), [2]), (("0:47:00.7",), [2]), (("01",), [1]),
        (("0", "", "all"), [0, 1, 2, 3]), ((), []),
    ),
)  # fmt: skip
def test_choose(devices: tuple[str, ...], numbers: list[int], simulated: Inventory) -> None:
    assert [gpu.number for gpu in choose(simulated, devices)] == numbers


@pytest.mark.parametrize(
    "device", ("9", "GPU-aaaa", "0:48:00.0", "47:00.0", "0:047:00.0", "none", "3:0", "nvidia0")
)
def test_an_unknown_device(device: str, simulated: Inventory) -> None:
    with pytest.raises(GPUError) as caught:
        choose(simulated, (device,))
    assert str(caught.value) == f"device error: {device}: unknown device"
    assert "0, 1, 2, 3" in caught.value.hint


def test_mig_devices(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIRUN_SIM", "mig=1+3")
    host = inventory("simulated", store)
    uuid = host.gpus[3].migs[1].uuid
    (gpu,) = choose(host, ("3:0", uuid, "3:0"))
    assert [mig.gi for mig in gpu.migs] == [7, 8]
    (parent,) = choose(host, ("3",))
    assert parent.migs == ()
    assert [len(gpu.migs) for gpu in choose(host, ("all",))] == [0, 3, 0, 3]
    with pytest.raises(GPUError, match="3:3: unknown device"):
        choose(host, ("3:3",))
    assert len({mig.uuid for gpu in host.gpus for mig in gpu.migs}) == 6
