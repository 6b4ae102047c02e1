"""SCMP_ACT_NOTIFY on real containers: a program outside decides over system calls."""

import array
import ctypes
import fcntl
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minirun.core.errors import ConfigError
from minirun.oci import features
from minirun.oci.seccomp import compiler, notify
from minirun.oci.seccomp import profile as seccomp
from spec.conftest import Bundle

try:
    compiler.Compiler(seccomp.ACTIONS["SCMP_ACT_ALLOW"])
except OSError as error:
    pytest.skip(f"no libseccomp: {error}", allow_module_level=True)

RECV, SEND = 0xC0502100, 0xC0182101
"""SECCOMP_IOCTL_NOTIF_RECV and SEND, linux/seccomp.h."""
EXDEV = 18


class Agent:
    """Listens at a socket, and answers every call that it is asked about with an errno."""

    def __init__(self, path: Path) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.messages: list[dict[str, Any]] = []
        self.asked: list[int] = []
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                data, rights, _, _ = connection.recvmsg(65536, socket.CMSG_SPACE(16))
                while more := connection.recv(65536):
                    data += more
            self.messages.append(json.loads(data))
            fds = array.array("i", rights[0][2])
            assert len(fds) == 1
            threading.Thread(target=self._decide, args=(fds[0],), daemon=True).start()

    def _decide(self, fd: int) -> None:
        while True:
            notice = ctypes.create_string_buffer(80)
            try:
                fcntl.ioctl(fd, RECV, notice)
                number = int.from_bytes(notice.raw[:8], "little")
                self.asked.append(int.from_bytes(notice.raw[16:20], "little", signed=True))
                answer = (
                    number.to_bytes(8, "little")
                    + bytes(8)
                    + (-EXDEV).to_bytes(4, "little", signed=True)
                )
                fcntl.ioctl(fd, SEND, answer + bytes(4))
            except OSError:  # the container has ended
                os.close(fd)
                return


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path / "agent")
    yield agent
    agent.listener.shutdown(socket.SHUT_RDWR)
    agent.listener.close()
    agent.thread.join()


def profile(path: Path, *names: str, **more: Any) -> dict[str, Any]:
    rule = {"names": list(names or ("mkdir", "mkdirat")), "action": "SCMP_ACT_NOTIFY"}
    return {
        "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule], "listenerPath": str(path / "agent"),
        "listenerMetadata": "for the agent alone", **more,
    }  # fmt: skip


@pytest.mark.parametrize("no_new_privileges", [False, True])
@pytest.mark.parametrize(
    "flags", [[], ["SECCOMP_FILTER_FLAG_TSYNC"], ["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"]]
)
def test_the_agent_decides(
    bundle: Bundle, agent: Agent, no_new_privileges: bool, flags: list[str]
) -> None:
    if not all(map(features.has_flag, flags)):
        pytest.skip("this kernel lacks the flag")
    said = bundle.says(
        "mkdir /x 2>&1; ls -d /x 2>&1; echo done",
        process__noNewPrivileges=no_new_privileges, annotations={"k": "v"},
        linux__seccomp=profile(bundle.path, flags=flags),
    )  # fmt: skip
    assert "Invalid cross-device link" in said
    assert said.endswith("done")
    assert agent.asked
    [message] = agent.messages
    assert message["fds"] == ["seccompFd"]
    assert message["metadata"] == "for the agent alone"
    state = message["state"]
    assert (state["id"], state["status"]) == (bundle.name, "creating")
    assert state["pid"] == message["pid"] > 1
    assert state["annotations"] == {"k": "v"}


def test_an_exec_has_a_listener_of_its_own(bundle: Bundle, agent: Agent) -> None:
    pid = bundle.create("sleep 100", linux__seccomp=profile(bundle.path))["pid"]
    bundle.program("start", bundle.name)
    done = bundle.program("exec", bundle.name, "mkdir", "/y")
    assert "Invalid cross-device link" in done.stderr
    assert len(agent.messages) == 2
    assert agent.messages[1]["state"]["status"] == "running"
    assert agent.messages[1]["state"]["pid"] == pid != agent.messages[1]["pid"]


def test_nobody_listens(bundle: Bundle) -> None:
    said = bundle.refuses(linux__seccomp=profile(bundle.path))
    assert "config.json: linux.seccomp.listenerPath" in said
    assert "failed to connect with seccomp agent" in said
    assert "no such file or directory" in said


def test_an_agent_may_close_as_soon_as_it_has_all(tmp_path: Path) -> None:
    listener = notify.Listener(str(tmp_path / "agent"), "")
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(listener.path)
        agent.listen(1)

        def serve() -> None:
            for _ in range(300):
                connection, _ = agent.accept()
                connection.recv(16)
                connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        for _ in range(300):
            listener._send(0, b"it")
        thread.join()


@pytest.mark.parametrize(
    ("changes", "culprit"),
    [
        ({"listenerPath": ""}, "linux.seccomp.listenerMetadata: needs a listenerPath"),
        ({"listenerPath": "", "listenerMetadata": ""},
         "linux.seccomp.syscalls[0].action: SCMP_ACT_NOTIFY needs a listenerPath"),
        ({"defaultAction": "SCMP_ACT_NOTIFY"}, "linux.seccomp.defaultAction: SCMP_ACT_NOTIFY"),
        ({"syscalls": [{"names": ["write"], "action": "SCMP_ACT_NOTIFY"}]},
         "linux.seccomp.syscalls[0].names: SCMP_ACT_NOTIFY cannot be used for the write syscall"),
        ({"syscalls": [{"names": ["mkdir"], "action": "SCMP_ACT_KILL", "errnoRet": 1}]},
         "linux.seccomp.syscalls[0].errnoRet: SCMP_ACT_KILL returns no number"),
    ],
)  # fmt: skip
def test_what_is_wrong(tmp_path: Path, changes: dict[str, Any], culprit: str) -> None:
    with pytest.raises(ConfigError) as caught:
        seccomp.load({**profile(tmp_path), **changes})
    assert str(caught.value).startswith(culprit)


def test_flags_of_the_kernel() -> None:
    assert features.has_flag("SECCOMP_FILTER_FLAG_LOG")
    text = subprocess.run(
        ["cat", "/proc/self/status"], capture_output=True, text=True, check=True
    ).stdout
    assert "Seccomp:\t0" in text, "asking installs nothing"
