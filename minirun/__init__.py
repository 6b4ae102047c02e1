"""minirun: a small, real container runtime whose GPU injection step can be watched.

    run(image, *command, gpus=[0, 1])   a new container; waits for its end, or with detach=True not
    step(image, …)                      a run that stops at each stage: a page with buttons
    replay("gpus-0-1")                  a recorded run: no root, no GPU, no Linux needed
    can_run()                           whether containers can be made here, and why not
    predict(question, choices)          a question that is asked before it is answered
    lesson("07-devices")                a lesson's questions, and %%shell cells for its commands
    lab("wrong-minor")                  a container that is broken on purpose, with buttons
    Container(id)                       one that is there: .devices .namespaces .timeline .exec(…)
    network("shop")                     networks as the kernel has them: a picture, and text
    RunError                            what run raises, if minirun could not do it

    c = minirun.run("ubuntu", "nvidia-smi -L", gpus=[0, 1])
    c.timeline

Every start of the runtime passes through this file, so it loads nothing. What a notebook uses lives
in minirun.faces.api, which comes in when one of these names is first asked for: PEP 562.
"""

__version__ = "0.2.0"
__all__ = [
    "Container", "DeviceDiff", "Namespaces", "RunError", "Timeline", "can_run", "lab", "lesson",
    "level", "network", "predict", "replay", "run", "step",
]  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.api import (
        Container,
        DeviceDiff,
        Namespaces,
        RunError,
        Timeline,
        can_run,
        lab,
        lesson,
        level,
        network,
        predict,
        replay,
        run,
        step,
    )
else:

    def __getattr__(name):
        """Import what `import minirun` offers, at its first use."""
        if name not in __all__:
            raise AttributeError(f"module 'minirun' has no attribute {name!r}")
        return getattr(__import__("minirun.faces.api", fromlist=[name]), name)

    def __dir__():
        return sorted({*__all__, *globals()})
