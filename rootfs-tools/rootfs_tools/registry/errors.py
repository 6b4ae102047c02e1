"""What goes wrong with a registry, in the words that docker's users know.

ImageError
├── Unreachable    no host answered: no network, or the host is down
    ├── Broken         the connection broke; asking again may help
    ├── NoTLS          the other side speaks plain HTTP
└── NotFound       the registry has no such image
"""

import json
import ssl

from urllib3 import exceptions as http

from minirun.core.errors import ImageError

_NETWORK = "is there a network? a proxy is taken from HTTPS_PROXY"
_EXPIRED, _NOT_YET = 10, 9
_NAMES = (62, 63, 64)
"""X509_V_ERR_* of openssl's x509_vfy.h: host, address and mail that do not match."""


class Unreachable(ImageError):
    """No registry answered."""


class NotFound(ImageError):
    """The registry answered that it has no such image."""


class Broken(ImageError):
    """The connection broke."""


class NoTLS(ImageError):
    """The other side speaks plain HTTP."""


def of_network(host: str, error: http.HTTPError | OSError) -> ImageError:
    """Return what an exception of urllib3 means, as one line."""
    if isinstance(error, http.ProxyError):
        return Unreachable(f"{host}: the proxy: {_innermost(error)}", "see HTTPS_PROXY, NO_PROXY")
    if isinstance(error, http.NameResolutionError):
        return Unreachable(f"{host}: no such host", _NETWORK)
    if isinstance(error, http.SSLError):
        return _of_tls(host, error)
    if isinstance(error, http.NewConnectionError):
        return Unreachable(f"{host}: {_innermost(error)}", _NETWORK)
    if isinstance(error, http.ConnectTimeoutError):
        return Unreachable(f"{host}: no connection in time", _NETWORK)
    if isinstance(error, http.TimeoutError):
        return Unreachable(f"{host}: the registry stalls: nothing came in time", "try again")
    return Broken(f"{host}: the connection broke: {_innermost(error)}", "try again")


def _of_tls(host: str, error: http.SSLError) -> ImageError:
    cause = error.args[0] if error.args else error
    where = f"/etc/containers/certs.d/{host}/ca.crt"
    if not isinstance(cause, ssl.SSLCertVerificationError):
        if _speaks_http(cause):
            text = f"{host}: http: server gave HTTP response to HTTPS client"
            return NoTLS(text, "insecure = true for it in registries.conf allows that")
        return ImageError(f"{host}: TLS: {getattr(cause, 'reason', None) or cause}")
    if cause.verify_code in (_EXPIRED, _NOT_YET):
        text = "certificate has expired or is not yet valid"
        return ImageError(f"{host}: x509: {text}", "is this machine's clock right?")
    if cause.verify_code in _NAMES:
        return ImageError(f"{host}: x509: certificate is not valid for this name")
    text = f"{host}: x509: certificate signed by unknown authority"
    return ImageError(text, f"put the authority's certificate into {where}")


def _speaks_http(cause: object) -> bool:
    reason = getattr(cause, "reason", None)
    return reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")


def _innermost(error: BaseException) -> str:
    """The text of the system's own error below urllib3's, or the last part of that."""
    seen: BaseException | None = error
    for _ in range(8):
        if isinstance(seen, OSError) and seen.strerror:
            return seen.strerror.lower()
        below = getattr(seen, "original_error", None) or getattr(seen, "__cause__", None)
        if below is None and isinstance(seen, http.ProtocolError):
            below = next((each for each in seen.args[1:] if isinstance(each, Exception)), None)
        if below is None:
            break
        seen = below
    return str(seen).rpartition("): ")[2] or type(seen).__name__


def of_answer(host: str, name: str, status: int, body: bytes, blob: str = "") -> ImageError:
    """Return what a registry's answer with an error means; `name` is the image's, as written.

    `blob`: the digest of what was asked for, if that was not the manifest. Source: the distribution
    project's spec, "Error Codes".
    """
    code, said = _first_error(body)
    if status == 404 and blob:
        return ImageError(f"{host}: {name}: {blob[:19]} not found: {said or 'blob unknown'}")
    if status == 404:
        return NotFound(f"manifest for {name} not found: {said or 'manifest unknown'}")
    if status == 429 or code == "TOOMANYREQUESTS":
        text = said or "you have reached your pull rate limit"
        return ImageError(f"{host}: toomanyrequests: {text}", f"minirun login {host}, or wait")
    if status == 403 or code == "DENIED":
        return denied(host, name)
    if status == 401:
        return unauthorized(host)
    return ImageError(f"{host}: status {status}{': ' if said else ''}{said}")


def of_server(host: str, what: str, status: int, body: bytes) -> ImageError:
    """Return what an error means that is not about an image: of a token server, of /v2/."""
    if status == 404:
        return ImageError(f"{host}: {what}: not found (status 404)", "is that the right address?")
    return of_answer(host, host, status, body)


def of_push(host: str, name: str, status: int, body: bytes) -> ImageError:
    """Return what a registry's answer with an error means, where an image is sent to it."""
    code, said = _first_error(body)
    if status == 403 or code == "DENIED":
        text = f"{name}: denied: requested access to the resource is denied"
        return ImageError(text, f"minirun login {host}")
    if status == 404:
        return ImageError(f"{name}: {said or 'name unknown'}", "does that registry take images?")
    return of_answer(host, name, status, body)


def denied(host: str, name: str) -> ImageError:
    """Return docker's line for an image that is private, or not there."""
    text = f"pull access denied for {name}, repository does not exist or may require 'docker login'"
    return ImageError(text, f"minirun login {host}")


def unauthorized(host: str) -> ImageError:
    """Return docker's line for credentials that are missing or wrong."""
    return ImageError(f"{host}: unauthorized: authentication required", f"minirun login {host}")


def _first_error(body: bytes) -> tuple[str, str]:
    """Return the first error's code and its message, at most 200 characters."""
    try:
        first = json.loads(body)["errors"][0]
        return str(first.get("code", ""))[:64], str(first.get("message", ""))[:200]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "", ""
