"""Who the user is at a registry: containers' auth.json, docker's config.json, and their helpers.

    $REGISTRY_AUTH_FILE alone, if it is set; else, one after the other,
    $XDG_RUNTIME_DIR/containers/auth.json   (without the variable /run/containers/UID/auth.json)
    ~/.config/containers/auth.json
    $DOCKER_CONFIG/config.json              (without the variable ~/.docker/config.json)

In each: a helper for the host (credHelpers), an entry in `auths`, a helper for all (credsStore).
Sources: containers-auth.json(5); docker's credential helper protocol.
"""

import base64
import binascii
import json
import os
import re
import subprocess
from typing import Any, NamedTuple

from minirun.core.errors import ImageError, reason
from minirun.core.keeping import state

_LIMIT = 1 << 20
_HELPER = re.compile("[A-Za-z0-9_.-]+")
_SECONDS = 120
"""A helper may ask the user for a passphrase."""
_DOCKER = ("docker.io", "index.docker.io", "registry-1.docker.io")
_DOCKER_KEY = "https://index.docker.io/v1/"
"""What docker itself calls docker.io."""


class Credentials(NamedTuple):
    """A name and a password, or an identity token, which stands for both."""

    user: str
    password: str
    identity_token: str = ""

    def __repr__(self) -> str:
        return f"Credentials({self.user!r}, …)"


def files() -> list[str]:
    """Return the files that credentials are looked for in; `login` writes the first."""
    if chosen := os.environ.get("REGISTRY_AUTH_FILE"):
        return [chosen]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    first = f"{runtime}/containers" if runtime else f"/run/containers/{os.getuid()}"
    docker = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    own = os.path.expanduser("~/.config/containers")
    return [f"{first}/auth.json", f"{own}/auth.json", f"{docker}/config.json"]


def find(host: str, path: str = "") -> Credentials | None:
    """Return what the user has for an image at `host`; None if there is nothing.

    Raises ImageError: a file or a helper is broken.
    """
    for name in files():
        document = _read(name)
        if found := _find(name, document, host, path):
            return found
    return None


def store(host: str, given: Credentials) -> str:
    """Keep credentials, and return where. Raises ImageError, OSError."""
    path = files()[0]
    document = _read(path)
    if helper := _helper(document, host):
        request = {"ServerURL": _server(host), "Username": given.user, "Secret": given.password}
        _call(helper, "store", json.dumps(request))
        return f"docker-credential-{helper}"
    auth = base64.b64encode(f"{given.user}:{given.password}".encode()).decode()
    _table(path, document, "auths", make=True)[host] = {"auth": auth}
    _write(path, document)
    return path


def erase(host: str) -> bool:
    """Forget what is kept for a host, in all files; return False if there was nothing.

    Raises ImageError, OSError.
    """
    gone = False
    for path in files():
        document = _read(path)
        if (helper := _helper(document, host)) and _from_helper(helper, host):
            _call(helper, "erase", _server(host))
            gone = True
        auths = _table(path, document, "auths")
        keys = [key for key in auths if _plain(key) == _plain(host)]
        for key in keys:
            del auths[key]
        if keys:
            _write(path, document)
            gone = True
    return gone


def _find(name: str, document: dict[str, Any], host: str, path: str) -> Credentials | None:
    _table(name, document, "credHelpers")
    special = _own_helper(document, host)
    if special and (found := _from_helper(special, host)):
        return found
    auths = {_plain(key): value for key, value in _table(name, document, "auths").items()}
    parts = f"{_plain(host)}/{path}".strip("/").split("/")
    for length in range(len(parts), 0, -1):  # containers': the longest namespace first
        entry = auths.get("/".join(parts[:length]))
        if isinstance(entry, dict) and (found := _decoded(name, host, entry)):
            return found
    general = document.get("credsStore")
    return _from_helper(general, host) if isinstance(general, str) and general else None


def _plain(key: str) -> str:
    """The host (and namespace) that a key of `auths` means: docker writes some as addresses."""
    if "://" in key:
        key = key.partition("://")[2].partition("/")[0]
    host, slash, rest = key.rstrip("/").partition("/")
    return f"{_DOCKER[0] if host in _DOCKER else host}{slash}{rest}"


def _decoded(name: str, host: str, entry: dict[str, Any]) -> Credentials | None:
    token, auth = entry.get("identitytoken"), entry.get("auth")
    try:
        text = base64.b64decode(auth, validate=True).decode() if auth else ""
    except (binascii.Error, UnicodeDecodeError, TypeError, ValueError):
        raise ImageError(f"{name}: auths: {host}: auth is not base64") from None
    user, colon, password = text.rstrip("\0").partition(":")
    if isinstance(token, str) and token:
        return Credentials(user, "", token)
    return Credentials(user, password) if colon else None


def _helper(document: dict[str, Any], host: str) -> str:
    """Return the helper that a file names for a host, or for all; "" if there is none."""
    found = _own_helper(document, host) or document.get("credsStore")
    return found if isinstance(found, str) else ""


def _own_helper(document: dict[str, Any], host: str) -> str:
    special = document.get("credHelpers")
    rows = special.items() if isinstance(special, dict) else ()
    found = {_plain(key): value for key, value in rows}.get(_plain(host))
    return found if isinstance(found, str) else ""


def _server(host: str) -> str:
    """Return what helpers know a host by."""
    return _DOCKER_KEY if host in _DOCKER else host


def _from_helper(helper: str, host: str) -> Credentials | None:
    said = _call(helper, "get", _server(host))
    if said is None:
        return None
    try:
        found = json.loads(said)
        user, secret = found["Username"], found["Secret"]
        if not (isinstance(user, str) and isinstance(secret, str)):
            raise TypeError
    except (ValueError, LookupError, TypeError):
        raise ImageError(f"docker-credential-{helper} get: not what was asked for") from None
    return Credentials("", "", secret) if user == "<token>" else Credentials(user, secret)


def _call(helper: str, action: str, said: str) -> str | None:
    """Call a helper with `said` on its input; None if it has no such credentials."""
    if not _HELPER.fullmatch(helper):
        raise ImageError(f"{helper!r} is no name of a credential helper")
    program = f"docker-credential-{helper}"
    try:
        done = subprocess.run(
            [program, action], input=said.encode(), capture_output=True, timeout=_SECONDS
        )
    except FileNotFoundError:
        raise ImageError(f"{program} is not installed", "the settings name it") from None
    except (subprocess.TimeoutExpired, OSError) as error:
        raise ImageError(f"{program} {action}: {error}") from None
    if not done.returncode:
        return done.stdout.decode(errors="replace")
    text = (done.stdout + done.stderr).decode(errors="replace").strip()
    if action == "get" and "credentials not found" in text:
        return None
    last = text.splitlines()[-1][:200] if text else f"status {done.returncode}"
    raise ImageError(f"{program} {action}: {last}")


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            data = file.read(_LIMIT)
        found = json.loads(data) if data.strip() else {}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ImageError(f"{path}: {reason(error)}") from None
    except (ValueError, RecursionError) as error:
        raise ImageError(f"{path}: not JSON: {error}", "mend or remove it") from None
    if not isinstance(found, dict):
        raise ImageError(f"{path}: not an object", "mend or remove it")
    return found


def _table(path: str, document: dict[str, Any], key: str, make: bool = False) -> dict[str, Any]:
    found = document.get(key) or {}
    if not isinstance(found, dict):
        raise ImageError(f"{path}: {key}: not an object", "mend or remove it")
    if make:
        document[key] = found
    return found


def _write(path: str, document: dict[str, Any]) -> None:
    """Replace a file by one rename; only its owner may read it. A link is followed, as podman."""
    path = os.path.realpath(path)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    state.replace(path, json.dumps(document, indent="\t"), f"{path}.{os.getpid()}")
