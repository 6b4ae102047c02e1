"""Ports as users write them."""

import pytest

from minirun.common.ports import exposed, port, span


@pytest.mark.parametrize("text", ["", "0", "65536", "+80", "80 ", "http", "²", "9" * 5000])
def test_no_port(text: str) -> None:
    assert (port(text), span(text), exposed(text)) == (None, None, None)


def test_ports() -> None:
    assert port("0" * 5000 + "80") == 80
    assert (span("80"), span("80-82"), span("82-80")) == (range(80, 81), range(80, 83), range(0))
    assert exposed("80") == ["80/tcp"]
    assert exposed("53-54/UDP") == ["53/udp", "54/udp"]
    assert (exposed("82-80"), exposed("80/icmp"), exposed("80-")) == (None, None, None)
