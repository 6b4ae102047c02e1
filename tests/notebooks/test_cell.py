"""One cell in a real kernel: it fills while the run goes on, and an interrupt ends the run."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jupyter_client import BlockingKernelClient, KernelManager

from conftest import STORE, Program, wait_until
from minirun.core.gates import open_gate
from minirun.faces.api import Container
from minirun.faces.api.child import Location


@pytest.fixture
def kernel(minirun: Program) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    env = os.environ | minirun.environment()
    with tempfile.TemporaryDirectory() as sockets:
        manager = KernelManager(kernel_name="python3", transport="ipc", ip=f"{sockets}/kernel")
        manager.start_kernel(env=env, cwd=sockets)
        client = manager.blocking_client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=60)
            yield manager, client
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def messages(client: BlockingKernelClient, until: Callable[[dict], bool]) -> list[dict]:
    """The kernel's messages until one of them is what we wait for."""
    found = []
    deadline = time.monotonic() + 30
    while not found or not until(found[-1]):
        assert time.monotonic() < deadline, "waited in vain"
        found.append(client.get_iopub_msg(timeout=30))
    return found


def is_idle(message: dict) -> bool:
    return message["content"].get("execution_state") == "idle"


def shows(text: str) -> Callable[[dict], bool]:
    return lambda message: text in message["content"].get("data", {}).get("text/html", "")


def test_the_cell_fills_while_the_container_is_half_built(
    minirun: Program, kernel: tuple[KernelManager, BlockingKernelClient]
) -> None:
    client = kernel[1]
    name = f"half-{os.getpid()}"
    client.execute(
        "import os; os.environ['MINIRUN_GATES'] = '5:begin'\n"
        "spaces = [os.readlink(f'/proc/self/ns/{kind}') for kind in os.listdir('/proc/self/ns')]\n"
        f"import minirun; c = minirun.run('busybox', 'echo', 'hello', name='{name}',"
        " gpus='0', gpu_driver='simulated')\n"
        "assert spaces == [os.readlink(f'/proc/self/ns/{k}') for k in os.listdir('/proc/self/ns')]"
    )
    before = messages(client, shows("puts the GPUs in"))
    kinds = [message["msg_type"] for message in before]
    assert kinds.count("display_data") == 1
    assert kinds[-1] == "update_display_data"
    assert "pivot_root" not in before[-1]["content"]["data"]["text/html"]
    container = Container(name, Location(str(minirun.root), STORE))
    assert container.status == "creating", "it is held at the gate, and the cell has shown it"
    open_gate(str(minirun.directory(name)))
    after = messages(client, is_idle)
    assert not [message for message in after if message["msg_type"] == "error"]
    displays = {
        message["content"]["transient"]["display_id"]
        for message in before + after
        if message["msg_type"] in ("display_data", "update_display_data")
    }
    assert len(displays) == 1
    updates = [message for message in after if message["msg_type"] == "update_display_data"]
    assert "pivot_root" in updates[-1]["content"]["data"]["text/html"]
    assert "hello\n" in [message["content"].get("text") for message in after]
    container.remove()


def test_an_interrupted_cell_leaves_nothing(
    minirun: Program, kernel: tuple[KernelManager, BlockingKernelClient]
) -> None:
    manager, client = kernel
    name = f"cell-{os.getpid()}"
    client.execute(f"import minirun; minirun.run('busybox', 'sleep', '100', name='{name}')")
    container = Container(name, Location(str(minirun.root), STORE))
    wait_until(lambda: container.status == "running")
    pid = container.pid
    manager.interrupt_kernel()
    seen = messages(client, is_idle)
    assert [m["content"]["ename"] for m in seen if m["msg_type"] == "error"] == [
        "KeyboardInterrupt"
    ]
    assert container.status == "removed"
    assert not Path(f"/proc/{pid}").exists()
    assert minirun.left() == []
