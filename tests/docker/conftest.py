"""minirun beside runc, and its command line in this process."""

from cli.columns import called, runtime  # noqa: F401  fixtures
