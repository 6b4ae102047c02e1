"""The simulated host, as tests of gpu/ have it."""

from gpu.conftest import simulated, store  # noqa: F401  fixtures
