"""A headless Chromium without a network, driven over the DevTools protocol through two pipes.

No driver and no package beside the browser is needed: messages are JSON, ended by a NUL byte
(chromium --remote-debugging-pipe: it reads from descriptor 3 and writes to 4).
"""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or ""
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--hide-scrollbars", "--disable-extensions", "--disable-background-networking",
    "--remote-debugging-pipe", "--force-color-profile=srgb",
)  # fmt: skip
_KEYS = {"Enter": "\r", " ": " "}


def _is_frame(event: dict[str, Any]) -> bool:
    if event.get("method") != "Target.attachedToTarget":
        return False
    return bool(event["params"]["targetInfo"]["type"] == "iframe")


class Browser:
    """One page in a browser of its own, in a network namespace in which nothing is up."""

    def __init__(self, profile: Path, *flags: str, loopback: bool = False) -> None:
        """`loopback`: it can reach this machine's own servers, by address, and nothing else."""
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        shell = f'exec unshare --net "$@" 3<&{to_read} 4>&{to_write}'
        if loopback:
            shell = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        rules = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
        argv = [PROGRAM, *_FLAGS, *flags, rules, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *argv], pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, env=os.environ | {"HOME": str(profile)},
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._number, self._buffer, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        """All that the page reported: console messages, requests, exceptions."""
        targets = self.call("Target.getTargets")["targetInfos"]
        self._attach(next(t["targetId"] for t in targets if t["type"] == "page"))

    def _attach(self, target: str) -> None:
        """Speak to the page `target` from now on."""
        self._target = target
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def renew(self) -> None:
        """Go on in an empty page, which has reported nothing yet; the one before is closed."""
        self._session, old = "", self._target
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.call("Target.closeTarget", targetId=old)
        self._attach(target)
        self.events.clear()

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method and return its result; AssertionError where the browser refuses."""
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    @contextmanager
    def inside(self, sign: str = "true") -> Iterator[None]:
        """Speak to the page's last frame that has a process of its own, as a sandboxed one has.

        `sign`: an expression that is true in it.
        """
        self.call(
            "Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=False, flatten=True
        )
        before, deadline = self._session, time.monotonic() + 30
        while True:
            found = [e["params"]["sessionId"] for e in self.events if _is_frame(e)]
            if found and self._is_there(found[-1], sign):
                break
            assert time.monotonic() < deadline, "no frame"
            self.run("0")
            time.sleep(0.05)
        self._session = found[-1]
        try:
            self.call("Runtime.enable")
            yield
        finally:
            self._session = before

    def _is_there(self, session: str, sign: str) -> bool:
        """Return True if an expression is true in a frame that has not gone."""
        for event in self.events:
            gone = event.get("params", {}).get("sessionId")
            if event.get("method") == "Target.detachedFromTarget" and gone == session:
                return False
        before, self._session = self._session, session
        try:
            return bool(self.run(sign))
        finally:
            self._session = before

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + 180
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            assert select.select([self._from], [], [], max(0, left))[0], "the browser is silent"
            piece = os.read(self._from, 1 << 16)
            assert piece, "the browser has ended"
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def open(self, path: Path, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        """Open a file and wait until it is there."""
        self.media(scheme=scheme)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self.call("Page.navigate", url=path.as_uri())
        deadline = time.monotonic() + 180
        while self.run("document.readyState + location.protocol") != "completefile:":
            assert time.monotonic() < deadline, "the page does not load"
            time.sleep(0.02)

    def visit(self, url: str, width: int = 1280, height: int = 900) -> None:
        """Open an address, which may be of a page that never stops loading."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self.call("Page.navigate", url=url)

    def media(self, kind: str = "", scheme: str = "light") -> None:
        """Show the page as on a medium ("print"), in light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=kind, features=features)

    def run(self, expression: str) -> Any:
        """Evaluate JavaScript in the page and return its value."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression: str, seconds: float = 60) -> None:
        """Wait until an expression is true in the page."""
        deadline = time.monotonic() + seconds
        while not self.run(expression):
            assert time.monotonic() < deadline, expression
            time.sleep(0.02)

    def press(self, *keys: str, shift: bool = False) -> None:
        """Press keys, by their DOM names: "Tab", "ArrowRight", "/"."""
        for key in keys:
            text = _KEYS.get(key, key if len(key) == 1 else "")
            down = "keyDown" if text else "rawKeyDown"
            code = {"Tab": 9, "Enter": 13, "Escape": 27}.get(key, 0)
            common = {"key": key, "modifiers": 8 * shift, "windowsVirtualKeyCode": code}
            self.call("Input.dispatchKeyEvent", type=down, text=text, **common)
            self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def click(self, x: float, y: float) -> None:
        """Click with the left button."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, **parameters: object) -> bytes:
        """Return what is to be seen, as PNG."""
        data: str = self.call("Page.captureScreenshot", format="png", **parameters)["data"]
        return base64.b64decode(data)

    def pixel(self, x: float, y: float) -> tuple[int, int, int]:
        """Return the colour that is painted at a place of the unscrolled page."""
        png = self.screenshot(clip={"x": int(x), "y": int(y), "width": 1, "height": 1, "scale": 1})
        packed, at = b"", 8
        while at < len(png):  # chunks: length, name, data, checksum
            size = int.from_bytes(png[at : at + 4], "big")
            if png[at + 4 : at + 8] == b"IDAT":
                packed += png[at + 8 : at + 8 + size]
            at += size + 12
        line = zlib.decompress(packed)  # a filter's number, then RGB
        return line[1], line[2], line[3]

    def complaints(self) -> list[str]:
        """Return errors, warnings, messages but of console.debug, and requests but for the page."""
        found = []
        for event in self.events:
            method, parameters = event.get("method", ""), event.get("params", {})
            if parameters.get("type") == "debug":
                continue
            if method in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
                found.append(f"{method} {json.dumps(parameters)}")
            if method == "Network.requestWillBeSent":
                url = parameters["request"]["url"]
                if not url.startswith(("file:", "data:,", "data:image/svg+xml,")):
                    found.append(f"request {url}")
        return found

    def close(self) -> None:
        """End the browser and all its processes."""
        os.close(self._to)
        os.close(self._from)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
