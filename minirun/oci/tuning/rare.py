"""What config.json may ask for and hardly ever does, in one place: imported only if it does.

The runtime checks everything before clone; init applies it.
"""

from minirun.core.container import Container
from minirun.core.errors import ConfigError
from minirun.core.extras import Extra
from minirun.oci.tuning import labels
from minirun.oci.tuning.tuning import Tuning


class Rare(Extra):
    """scheduler, ioPriority, personality, memoryPolicy, labels; and intelRdt, which is refused."""

    def __init__(self, container: Container) -> None:
        """Check it all. Raises ConfigError."""
        super().__init__(container)
        if self.config.linux.get("intelRdt") is not None:
            what = "minirun does not manage /sys/fs/resctrl"
            raise ConfigError(f"config.json: linux.intelRdt: is not supported: {what}")
        self.profile = labels.check(self.config)
        self.tuning = Tuning(self.config)

    def limit(self) -> None:
        """Set it for this process: a real-time policy needs CAP_SYS_NICE.

        Raises ConfigError, OSError.
        """
        self.tuning.apply()
        labels.apply(self.profile)


extra = Rare
