"""A headless Firefox that reaches this machine alone, driven by Marionette over a TCP socket.

No driver and no package beside the browser is needed. A message is its length, a colon, and JSON:
[0, number, command, parameters] to the browser, [1, number, error, result] from it. The commands
are WebDriver's (https://www.w3.org/TR/webdriver2/).
"""

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("firefox-esr") or shutil.which("firefox") or ""
_PORT = "MarionetteActivePort"
"""The file of the profile in which the browser writes its port, if it has chosen that itself."""
_CLOSED = 9
"""A port of this machine at which no one listens: all other addresses are asked of it, as proxy."""
_PREFERENCES: dict[str, str | int | bool] = {
    "marionette.port": 0,
    "network.proxy.type": 1,
    "network.proxy.socks": "127.0.0.1",
    "network.proxy.socks_port": _CLOSED,
    "network.proxy.socks_remote_dns": True,
    "network.proxy.failover_direct": False,
    "network.proxy.no_proxies_on": "127.0.0.1",
    "network.proxy.allow_hijacking_localhost": False,
    "app.update.disabledForTesting": True,
    "datareporting.policy.dataSubmissionEnabled": False,
    "toolkit.telemetry.server": "",
    "services.settings.server": "data:,",
    "browser.aboutwelcome.enabled": False,
}
_KEYS = {
    "Enter": "\ue007", "Tab": "\ue004", "Escape": "\ue00c", "Backspace": "\ue003",
    "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015",
}  # fmt: skip
"""DOM's name of a key → WebDriver's letter for it."""
_SHIFT = "\ue008"


class Firefox:
    """One page in a browser of its own: the methods of faces/show/browser.py that are called."""

    def __init__(self, profile: Path) -> None:
        """`profile`: a folder that is made."""
        profile.mkdir()
        lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in _PREFERENCES.items()]
        (profile / "user.js").write_text("\n".join(lines))
        argv = [PROGRAM, "--headless", "--marionette", "--no-remote", "--profile", str(profile)]
        self._process = subprocess.Popen(
            [*argv, "about:blank"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
            env=os.environ | {"HOME": str(profile), "MOZ_CRASHREPORTER_DISABLE": "1"},
        )  # fmt: skip
        self._number, self._buffer = 0, b""
        try:
            self._socket = socket.create_connection(("127.0.0.1", self._port(profile)), timeout=180)
            self._message()  # the greeting: which protocol it is
            self.call("WebDriver:NewSession", capabilities={"alwaysMatch": {}})
        except BaseException:
            self._end()
            raise

    def _port(self, profile: Path) -> int:
        """Return the port at which the browser listens; it writes that when it has started."""
        deadline = time.monotonic() + 120
        while not (text := (profile / _PORT).read_text() if (profile / _PORT).exists() else ""):
            assert self._process.poll() is None, "the browser has ended"
            assert time.monotonic() < deadline, "the browser is silent"
            time.sleep(0.05)
        return int(text)

    def call(self, command: str, **parameters: object) -> Any:
        """Call a command and return its result; AssertionError if the browser refuses."""
        self._number += 1
        text = json.dumps([0, self._number, command, parameters]).encode()
        self._socket.sendall(b"%d:%b" % (len(text), text))
        _, number, error, result = self._message()
        assert number == self._number and error is None, error
        return result

    def _message(self) -> Any:
        while b":" not in self._buffer:
            self._receive()
        size, _, self._buffer = self._buffer.partition(b":")
        while len(self._buffer) < int(size):
            self._receive()
        text, self._buffer = self._buffer[: int(size)], self._buffer[int(size) :]
        return json.loads(text)

    def _receive(self) -> None:
        piece = self._socket.recv(1 << 16)
        assert piece, "the browser has ended"
        self._buffer += piece

    def visit(self, url: str, width: int = 1280, height: int = 900) -> None:
        """Open an address, and wait until the page's own parts have loaded."""
        self.call("WebDriver:SetWindowRect", width=width, height=height)
        self.call("WebDriver:Navigate", url=url)

    def run(self, expression: str) -> Any:
        """Evaluate JavaScript in the page and return its value."""
        script = f"return ({expression})"
        return self.call("WebDriver:ExecuteScript", script=script, args=[])["value"]

    def wait(self, expression: str, seconds: float = 60) -> None:
        """Wait until an expression is true in the page."""
        deadline = time.monotonic() + seconds
        while not self.run(expression):
            assert time.monotonic() < deadline, expression
            time.sleep(0.2)

    def press(self, *keys: str, shift: bool = False) -> None:
        """Press keys, by their DOM names: "Tab", "ArrowRight", "/"."""
        actions = [
            {"type": kind, "value": _KEYS.get(key, key)}
            for key in keys for kind in ("keyDown", "keyUp")
        ]  # fmt: skip
        if shift:
            held = [{"type": kind, "value": _SHIFT} for kind in ("keyDown", "keyUp")]
            actions = [held[0], *actions, held[1]]
        keyboard = {"type": "key", "id": "keyboard", "actions": actions}
        self.call("WebDriver:PerformActions", actions=[keyboard])

    @contextmanager
    def inside(self, frame: int = 0) -> Iterator[None]:
        """Speak to a frame of the page, by its number."""
        self.call("WebDriver:SwitchToFrame", id=frame)
        try:
            yield
        finally:
            self.call("WebDriver:SwitchToFrame", id=None)

    def screenshot(self) -> bytes:
        """Return what is to be seen, as PNG."""
        taken: str = self.call("WebDriver:TakeScreenshot", full=False)["value"]
        return base64.b64decode(taken)

    def close(self) -> None:
        """End the browser and all its processes."""
        self._socket.close()
        self._end()

    def _end(self) -> None:
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
