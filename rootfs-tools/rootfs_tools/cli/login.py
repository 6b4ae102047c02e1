"""`minirun login` and `logout`: who the user is at a registry, kept as podman keeps it."""

from __future__ import annotations

import getpass
import os
import sys

from minirun.cli.flags import Flags, flag
from minirun.core.errors import UsageError
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import clean, warn
from rootfs_tools.grammar import parse
from rootfs_tools.registry import client, credentials, settings
from rootfs_tools.registry.transport import Transport

_DOCKER = "docker.io"
_LONGEST = 64 << 10


class Login(Flags):
    """Log in to a registry."""

    command = "login"
    username: str = flag("-u")
    password: str = flag("-p")
    password_stdin: bool


def main_login(args: list[str], _: Settings) -> int:
    """Check a name and a password at a registry, and keep them; return the exit status."""
    flags = Login(args)
    host = _host(flags)
    if flags.password_stdin and not flags.username:
        raise UsageError("Must provide --username with --password-stdin", "-u NAME")
    if flags.password and flags.password_stdin:
        raise UsageError("--password and --password-stdin are mutually exclusive", "one of them", 1)
    if flags.password:
        warn("using --password via the CLI is insecure: use --password-stdin")
    user = flags.username or _asked("Username: ")
    password = flags.password or (
        _from_stdin() if flags.password_stdin else _asked("Password: ", hidden=True)
    )
    if not user or not password or ":" in user:
        raise UsageError("a name without a colon, and a password, are needed")
    given = credentials.Credentials(user, password)
    transport = Transport()
    try:
        endpoint = settings.Endpoint(host, "", settings.load().is_insecure(host))
        client.Client(endpoint, transport, given).check()
    finally:
        transport.close()
    where = credentials.store(host, given)
    print(clean(f"Login Succeeded: kept in {where}"))
    return 0


def main_logout(args: list[str], _: Settings) -> int:
    """Forget what is kept for a registry; return the exit status."""
    host = _host(Flags(args, "logout"))
    gone = credentials.erase(host)
    print(clean(f"Removing login credentials for {host}" if gone else f"Not logged in to {host}"))
    return 0


def _host(flags: Flags) -> str:
    flags.takes(0, 1)
    name = "".join(flags.args)
    text = name.partition("://")[2] or name or _DOCKER
    host = text.partition("/")[0]
    if host == "index.docker.io":
        return _DOCKER
    if parse(f"{host}/x").domain != host:
        raise UsageError(f"{host!r} is no registry", "HOST or HOST:PORT")
    return host


def _asked(question: str, hidden: bool = False) -> str:
    if not os.isatty(0):
        hint = "-u NAME --password-stdin" if hidden else "-u NAME"
        raise UsageError("cannot perform an interactive login from a non TTY device", hint)
    try:
        return getpass.getpass(question) if hidden else input(question)
    except EOFError:
        raise UsageError("nothing was given") from None


def _from_stdin() -> str:
    data = sys.stdin.buffer.read(_LONGEST)
    try:
        return data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise UsageError("the password is not UTF-8") from None
