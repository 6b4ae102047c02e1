"""minirun: a small, real container runtime whose GPU injection step can be watched.

    import minirun
    c = minirun.run("ubuntu", "nvidia-smi", "-L", gpus="0,1")
    c.timeline

Every start of the runtime passes through this file, so it loads nothing. What a notebook uses lives
in minirun.api, which comes in when one of these names is first asked for: PEP 562.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.api import Container as Container
    from minirun.api import DeviceDiff as DeviceDiff
    from minirun.api import Namespaces as Namespaces
    from minirun.api import Timeline as Timeline
    from minirun.api import can_run as can_run
    from minirun.api import predict as predict
    from minirun.api import replay as replay
    from minirun.api import run as run
else:
    _API = frozenset(
        (
            "Container", "DeviceDiff", "Namespaces", "Timeline",
            "can_run", "predict", "replay", "run",
        )
    )  # fmt: skip

    def __getattr__(name):
        if name not in _API:
            raise AttributeError(f"module 'minirun' has no attribute {name!r}")
        return getattr(__import__("minirun.api", fromlist=[name]), name)

    def __dir__():
        return sorted(_API | globals().keys())
