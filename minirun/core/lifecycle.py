"""The life of a container: the table of contents of this program.

    create   stages 1 to 7, until init waits at exec.fifo
    start    lets init go on; the container's command runs    (minirun.core.endings, from here on)
    kill     a signal to init
    delete   removes all that is left: processes, cgroup, directory  (destroy, there)

Whichever command is killed, `gc` and `delete --force` finish its work from state.json.
"""

from __future__ import annotations

import os

from minirun.core import events, extras, handshake
from minirun.core.container import Container
from minirun.core.endings import abandon
from minirun.core.errors import MinirunError, from_os
from minirun.core.handshake import Channel, Init, Message
from minirun.core.keeping import places
from minirun.core.stages import s1_clone, s2_ask, s3_prestart, s6_answer, s7_exec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from minirun.core.rootfs import Plan


def create(container: Container) -> Init:
    """Make the container, until its init waits for `start`.

    On any error it is ended; its directory stays for the caller, who made it. Raises MinirunError.
    """
    init = None
    try:
        with events.stage(1, "runtime", "clone and root filesystem", why="init is born"):
            extras.prepare(container)
            s1_clone.make_places(container)
            plan = s1_clone.plan(container)
            init = s1_clone.runtime(container, lambda channel: run_init(container, plan, channel))
            s3_prestart.load(container.config)
            s1_clone.wait(container, init)
        init.channel.say(Message.YOUR_TURN)
        init.channel.expect(Message.RUN_HOOKS)  # stage 2 is init's
        init.channel.expect(Message.YOUR_TURN)
        s3_prestart.runtime(container, init)  # stages 4 and 5 are a hook's
        s6_answer.runtime(init.channel)
        s7_exec.runtime(container, init)
        init.channel.expect(Message.WAITING)  # stage 7 is init's
    except (MinirunError, OSError) as error:
        failure = _reason(container, init, error)
        if init:
            init.channel.fail(failure)
        abandon(container, is_last=False)
        raise failure from None
    except BaseException:
        abandon(container, is_last=False)
        raise
    return init


def _reason(container: Container, init: Init | None, error: MinirunError | OSError) -> MinirunError:
    """Return `error` as a MinirunError; if a signal killed init, an error that says so instead."""
    failure = from_os(error) if isinstance(error, OSError) else error
    if not init:
        return failure
    died = isinstance(failure, handshake.PeerDied)
    options = os.WEXITED | os.WNOWAIT | (0 if died else os.WNOHANG)
    try:
        end = os.waitid(os.P_PIDFD, init.pidfd, options)
    except ChildProcessError:
        return failure
    if end is None or end.si_code == os.CLD_EXITED:
        return failure
    limited = container.config.resources.get("memory")
    hint = "perhaps its memory limit is too low to start with" if limited else ""
    return MinirunError(f"init was killed by signal {end.si_status}", hint)


def run_init(container: Container, plan: Plan, channel: Channel) -> NoReturn:
    """All that init does, in the child that clone made. Never returns."""
    try:
        path = f"{container.directory}/{places.EXEC}"
        exec_fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        root = s1_clone.init(container, plan, channel)
        s2_ask.init(channel)
        ready = s7_exec.Ready(container, root)  # while the hooks run
        s6_answer.init(channel)
        s7_exec.init(container, channel, root, exec_fd, ready)
    except MinirunError as error:
        channel.fail(error)
    except OSError as error:
        channel.fail(from_os(error))
    except BaseException as error:
        channel.fail(MinirunError(f"init: {type(error).__name__}: {error}"))
    finally:
        os._exit(1)
