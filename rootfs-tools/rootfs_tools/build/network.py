"""Which network a RUN step has: that of `build --network`, or what RUN --network asks for.

A Dockerfile may be a stranger's. It may ask for less (none), and for the host's network only if the
command line allows it: `build --allow network.host`, or `--network host` for all steps. BuildKit
calls this an entitlement, and refuses the same by default.
"""

from __future__ import annotations

from minirun.common.network_request import USERSPACE, Attachment, NetworkRequest
from minirun.core.errors import ImageError, MinirunError, UsageError
from minirun.core.keeping.settings import Settings, unprivileged
from minirun.core.keeping.visible import warn
from minirun.net import attach, network, userspace

NONE, HOST = "none", "host"
ENTITLEMENT = "network.host"
_WORDS = ("default", NONE, HOST)
"""What RUN --network knows."""


class BuildNetwork:
    """The networks of one build. Without --network it is the bridge, if one can be made here."""

    def __init__(self, settings: Settings, word: str, usual: str, allowed: list[str]) -> None:
        """Take the words of --network and --allow; `usual`: $MINIRUN_NETWORK.

        Raises UsageError, NetworkError, and MinirunError if no bridge can be made for --network.
        """
        if unknown := [one for one in allowed if one != ENTITLEMENT]:
            raise UsageError(f"--allow {unknown[0]}: not known", f"--allow {ENTITLEMENT}")
        self._is_default = not (word or usual)
        self._usual = word or usual or network.DEFAULT
        if self._usual == "default":
            self._usual = network.DEFAULT
        self._allows_host = bool(allowed) or self._usual == HOST
        if self._is_default and not attach.owns_network():
            self._usual = userspace.find().rpartition("/")[2] or self._usual
        if self._usual in (NONE, HOST) or self._is_by_program():
            return
        if not network.is_name(self._usual):
            raise UsageError(
                f"--network {self._usual}: not for a build", "none, host, bridge, NAME"
            )
        if self._usual != network.DEFAULT:
            network.load(settings.store, self._usual)
        if not self._is_default and (reason := attach.why_no_bridge()):
            raise MinirunError(f"--network {self._usual}: {reason}", "--network none or host")

    def of_step(self, word: str) -> str:
        """Return none, host or a network's name for RUN --network=WORD. Raises ImageError."""
        if word not in _WORDS:
            raise ImageError(f"RUN --network={word}: not known", ", ".join(_WORDS))
        if word == HOST and not self._allows_host:
            hint = f"minirun build --allow {ENTITLEMENT}, if you trust the Dockerfile"
            raise ImageError("RUN --network=host: not allowed", hint)
        if word != "default" or self._is_by_program():
            return self._usual if word == "default" else word
        if self._is_default and self._usual != NONE and (reason := attach.why_no_bridge()):
            warn(attach.no_network(reason))
            self.fall_back()
        return self._usual

    def fall_back(self) -> None:
        """Let the steps that follow have no network: a line has said that none can be made."""
        self._usual = NONE

    def request(self, word: str) -> NetworkRequest | None:
        """Return what a step's container asks for; None if that is no network of minirun's."""
        if word in (NONE, HOST):
            return None
        if word in USERSPACE:
            return NetworkRequest("userspace", program=word, default=self._is_default)
        return NetworkRequest("networks", (Attachment(word),), default=self._is_default)

    def _is_by_program(self) -> bool:
        """Return True if a program of the user's makes the network. Raises MinirunError."""
        if self._usual not in USERSPACE:
            return False
        if not unprivileged():
            raise UsageError(f"--network {self._usual}: for users without root", "--network bridge")
        if not userspace.find(self._usual):
            text = f"--network {self._usual}: the program is not installed"
            raise MinirunError(text, userspace.HINT)
        return True
