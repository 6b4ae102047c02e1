"""--debug FILE: the order of operations, in the words of nvidia-container-cli's own log.

A line is `I1121 11:57:00.123456 PID] what`, as there without the C file and line. Messages about
what is mounted, linked and executed are written right before it is done, so the last line of a
failed run is the culprit. /dev/stderr and the like work too.
"""

from __future__ import annotations

import os
import time

from minirun import __version__
from minirun.gpu.asked.request import CAPABILITIES, NvidiaRequest
from minirun.gpu.inventory import Inventory
from minirun.gpu.nvidia.cli import compat
from minirun.gpu.nvidia.cli.cli_args import CommandLine
from minirun.gpu.nvidia.cli.planner import LibraryPlaces
from minirun.gpu.nvidia.shared import catalog
from minirun.gpu.steps import FILE, CompatLibrary, DeviceNode, Link, Step, Tmpfs

_WARNING = "-- WARNING, the following logs are for debugging purposes only --"
_WORDS = ("no-cgroups", "no-devbind", "no-gsp-firmware", "no-persistenced", "no-fabricmanager")


class DebugLog:
    """The debug log; without a path it writes nothing."""

    def __init__(self, path: str) -> None:
        """Open the log at `path`, "" for none. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY
        self.fd = os.open(path, flags, 0o644) if path else -1
        if path:
            os.write(self.fd, f"\n{_WARNING}\n\n".encode())

    def say(self, text: str) -> None:
        """Write one line."""
        if self.fd >= 0:
            now = time.time()
            stamp = time.strftime("%m%d %H:%M:%S", time.localtime(now))
            line = f"I{stamp}.{int(now % 1 * 1e6):06} {os.getpid()}] {text}\n"
            os.write(self.fd, line.encode(errors="surrogateescape"))

    def started(self, request: NvidiaRequest, user: tuple[int, int], cache: str) -> None:
        """Say what the driver is looked for by."""
        self.say(f"initializing library context (minirun version={__version__})")
        self.say(f"using root {request.root or '/'}")
        self.say(f"using ldcache {cache}")
        self.say(f"using unprivileged user {user[0]}:{user[1]}")

    def driver(self, found: Inventory) -> None:
        """Say what the host has, in the order in which nvidia-container-cli finds it."""
        self.say("requesting driver information with ''")
        for files in (found.libraries, found.libraries32):
            for path in sorted((file.path for file in files), reverse=True):
                self.say(f"selecting {path}")
        for word, files in (("", found.libraries), ("compat32 ", found.libraries32)):
            there = [file.path.rpartition("/")[2] for file in files]
            for name, _ in catalog.LIBRARIES:
                if not any(library.startswith(f"{name}.") for library in there):
                    self.say(f"missing {word}library {name}")
        for file in found.binaries:
            self.say(f"selecting {file.path}")
        for file in found.firmware:
            self.say(f"listing firmware path {file.path}")
        for node in found.nodes:
            self.say(f"listing device {node.path}")
        for file in found.sockets:
            self.say(f"listing ipc path {file.path}")
        self.say("requesting device information with ''")
        for gpu in found.gpus:
            name = f"dxcore adapter {gpu.number}" if found.store else f"device {gpu.node}"
            self.say(f"listing {name} ({gpu.uuid} at {gpu.bus_id})")

    def container(
        self, line: CommandLine, pid: int, owner: tuple[int, int], found: LibraryPlaces
    ) -> None:
        """Say what is known of the container."""
        request = line.request
        flags = [word[2:] for word in line.words if word[2:] in (*_WORDS, *CAPABILITIES)]
        mode = "supervised" if request.pid else "standalone"
        self.say(f"configuring container with '{' '.join([*flags, mode])}'")
        host = " (host relative)" if request.ldconfig.startswith("@") else ""
        facts = {
            "pid": pid, "rootfs": request.rootfs, "owner": f"{owner[0]}:{owner[1]}",
            "bins directory": "/usr/bin", "libs directory": found.libraries,
            "libs32 directory": found.libraries32,
            "cudart directory": compat.FOLDER.rpartition("/")[0],
            "ldconfig": f"{request.ldconfig}{host}", "mount namespace": f"/proc/{pid}/ns/mnt",
        }  # fmt: skip
        for name, value in facts.items():
            self.say(f"setting {name} to {value}")

    def doing(self, rootfs: str, step: Step | str) -> None:
        """Say what is about to be done; a string is the ldconfig that is executed."""
        if isinstance(step, str):
            self.say(f"executing {step.lstrip('@')} from host at {rootfs}")
        elif isinstance(step, Tmpfs):
            self.say(f"mounting tmpfs at {rootfs}{step.path}")
        elif isinstance(step, Link):
            self.say(f"creating symlink {rootfs}{step.path} -> {step.target}")
        elif isinstance(step, DeviceNode) and not step.host_path:
            self.say(f"making {rootfs}{step.path} (SIMULATED)")
        else:
            is_file = isinstance(step, CompatLibrary) or getattr(step, "options", ()) == FILE
            flags = " with flags 0x7" if is_file else ""
            self.say(f"mounting {step.host_path} at {rootfs}{step.path}{flags}")
