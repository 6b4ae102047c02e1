"""Which IMEX channels --imex-channel names."""

import pytest

from minirun.core.errors import GPUError
from minirun.gpu.nvidia.cli import imex


def test_numbers_are_read_as_strtoumax_reads_them() -> None:
    assert imex.numbers(("0", "", "00000007", "7", "1048575")) == [0, 7, 1048575]
    assert imex.numbers(("0" * 5000,)) == [0]


@pytest.mark.parametrize("channel", ["1048576", "-1", "x", "1.5", "٣", "9" * 5000])
def test_what_is_no_channel(channel: str) -> None:
    with pytest.raises(GPUError, match=r"error parsing IMEX info: .*: invalid channel id"):
        imex.numbers(("0", channel))
