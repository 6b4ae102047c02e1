"""The machine of `make vm`, started here by its own line for Linux, and typed into on its console.

Its disk is not written to. The lines for macOS and Windows are read, and never started.
"""

import re
import shlex
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from machines import guests, vm

SUITES = ("trixie", "trixie:arm64")
BOOT_SECONDS, SECONDS = 1200, 900
"""For a start, and for a command, of a processor that is translated on a busy machine."""
PROMPT = "root@minirun:"


class Console:
    """A serial line: what came out of it, and what is typed."""

    def __init__(self, argv: list[str], folder: Path) -> None:
        self.process = subprocess.Popen(
            argv,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.text, self.seen = "", 0
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        while data := self.process.stdout.read1(4096):
            self.text += data.decode(errors="replace")

    def wait(self, pattern: str, seconds: float) -> re.Match[str]:
        """Return the first match of what has come since the last one."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            if found := re.compile(pattern).search(self.text, self.seen):
                self.seen = found.end()
                return found
            time.sleep(0.2)
        raise AssertionError(f"{pattern!r} did not come: {self.text[-3000:]}")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            pipe.close()

    def type(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(scope="module", params=SUITES)
def machine(request: pytest.FixtureRequest) -> Iterator[tuple[Console, dict[int, int]]]:
    """A machine whose root is logged in, and the ports that lead to its own."""
    suite = request.param
    folder, guest = vm.TARGET / suite.replace(":", "-"), guests.of(suite)
    if not (folder / "disk.qcow2").exists():
        pytest.skip(f"no {folder.relative_to(vm.TOP)}: make vm SUITE={suite}")
    if not shutil.which(guest.program):
        pytest.skip(f"no {guest.program}: apt-get install {guest.package}")
    line = vm.start_line("Linux", guest)
    assert line in (folder / "START.txt").read_text(), "another image: make vm"
    if not guests.has_kvm(guest):
        line = line.replace("-accel kvm ", "")
    ports = {port: free_port() for port in (vm.LAB, vm.WEB)}
    for inside, outside in ports.items():
        line = line.replace(f":{inside}-:", f":{outside}-:")
    console = Console(["setpriv", "--pdeathsig", "KILL", *shlex.split(line), "-snapshot"], folder)
    try:
        console.wait(PROMPT, BOOT_SECONDS)
        yield console, ports
    finally:
        console.end()


@pytest.mark.slow
@pytest.mark.timeout(BOOT_SECONDS + 4 * SECONDS)
def test_two_gpus(machine: tuple[Console, dict[int, int]]) -> None:
    console, _ = machine
    console.type("minirun run --rm --gpus 0,1 ubuntu sh -c 'ls /dev; nvidia-smi -L'")
    console.wait(r"nvidia0\s+nvidia1", SECONDS)
    console.wait(r"GPU 0: .*\(SIMULATED\)", SECONDS)
    console.wait(r"GPU 1: .*\(SIMULATED\)", SECONDS)
    console.wait(PROMPT, SECONDS)


@pytest.mark.slow
@pytest.mark.timeout(3 * SECONDS)
def test_the_page_of_a_step_is_open_outside(machine: tuple[Console, dict[int, int]]) -> None:
    console, ports = machine
    console.type(f"minirun run --rm --step --web={vm.WEB} --gpus 0,1 ubuntu true")
    path = console.wait(rf"http://127\.0\.0\.1:{vm.WEB}(/[\w-]+/)", SECONDS)[1]
    address = f"http://127.0.0.1:{ports[vm.WEB]}{path}"
    asked = urllib.request.Request(address, headers={"Host": f"127.0.0.1:{vm.WEB}"})
    with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
        page = answer.read().decode()
    assert answer.status == 200
    assert "<title>" in page and "minirun" in page
    console.type("\x03")
    console.wait(PROMPT, SECONDS)


@pytest.mark.slow
@pytest.mark.timeout(3 * SECONDS)
def test_jupyterlab_is_open_outside(machine: tuple[Console, dict[int, int]]) -> None:
    console, ports = machine
    console.type("make lab JUPYTER=--no-browser")
    token = console.wait(rf"http://127\.0\.0\.1:{vm.LAB}/lab\S*token=(\w+)", SECONDS)[1]
    address = f"http://127.0.0.1:{ports[vm.LAB]}/api/status?token={token}"
    with urllib.request.urlopen(address, timeout=SECONDS) as answer:
        assert answer.status == 200
    console.type("\x03\x03")


def test_a_line_for_each_system() -> None:
    """What can be known here of the lines: accelerator, fall back, ports, one set of quotes."""
    for guest in guests.GUESTS.values():
        for system, accelerator in vm.ACCELERATORS.items():
            words = shlex.split(vm.start_line(system, guest))
            found = [words[i + 1] for i, word in enumerate(words) if word == "-accel"]
            assert found == [accelerator, "tcg"]
            assert words[0] == guest.program
            assert f"hostfwd=tcp:127.0.0.1:{vm.WEB}-:{vm.WEB}" in words[-1]
            assert "'" not in vm.start_line(system, guest)
