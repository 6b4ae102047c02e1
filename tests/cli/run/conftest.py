"""minirun beside docker."""

from beside import beside, sides  # noqa: F401  fixtures
