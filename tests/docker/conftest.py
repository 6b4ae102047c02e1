"""minirun beside docker and beside runc, and its command line in this process."""

from beside import beside, sides  # noqa: F401  fixtures
from cli.columns import called, runtime  # noqa: F401  fixtures
