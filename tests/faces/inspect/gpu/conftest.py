"""As for all tests of GPUs: the simulated driver's specification is its default."""

from gpu.conftest import no_specification  # noqa: F401
