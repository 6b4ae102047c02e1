"""What config.json may ask for and hardly ever does, in one place: imported only where it does.

The runtime makes a :class:`Rare` before clone, which checks everything; init applies it.
"""

from minirun.core.config import Config
from minirun.core.errors import ConfigError
from minirun.oci.tuning import labels
from minirun.oci.tuning.tuning import Tuning


class Rare:
    """scheduler, ioPriority, personality, memoryPolicy, labels; and intelRdt, which is refused."""

    def __init__(self, config: Config) -> None:
        """Check it all. Raises ConfigError."""
        if config.linux.get("intelRdt") is not None:
            what = "minirun does not manage /sys/fs/resctrl"
            raise ConfigError(f"config.json: linux.intelRdt: is not supported: {what}")
        self.profile = labels.check(config)
        self.tuning = Tuning(config)

    def apply(self) -> None:
        """In init, still privileged: set it for this process. Raises ConfigError, OSError."""
        self.tuning.apply()
        labels.apply(self.profile)
