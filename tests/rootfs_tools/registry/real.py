"""A real registry: Debian's docker-registry on loopback, with TLS, htpasswd or tokens."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from required import installed

USER, PASSWORD = "mona", "correct horse"


class Authority:
    """A certificate authority of the test's own, made by openssl."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.certificate, self.key = folder / "ca.crt", folder / "ca.key"
        self._openssl(
            "req", "-x509", *_NEW_KEY, "-keyout", self.key, "-out", self.certificate,
            "-subj", "/CN=test authority", "-days", "2",
        )  # fmt: skip

    def issue(self, name: str, names: str = "IP:127.0.0.1,DNS:localhost", days: int = 2) -> Path:
        """Return the path, less .crt and .key, of a certificate for these names."""
        base = self.folder / name
        self._openssl(
            "req", "-new", *_NEW_KEY, "-keyout", f"{base}.key", "-out", f"{base}.csr",
            "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}",
        )  # fmt: skip
        sign = (
            "x509", "-req", "-in", f"{base}.csr", "-out", f"{base}.crt",
            "-CA", self.certificate, "-CAkey", self.key, "-copy_extensions", "copy",
        )  # fmt: skip
        try:
            self._openssl(*sign, "-days", days)
        except subprocess.CalledProcessError:  # OpenSSL 3.5 refuses an end before the start
            self._openssl(*sign, "-not_before", "20200101000000Z", "-not_after", "20200102000000Z")
        return base

    def _openssl(self, *words: object) -> None:
        argv = [installed("openssl"), *map(str, words)]
        subprocess.run(argv, check=True, capture_output=True)


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@contextlib.contextmanager
def registry(
    folder: Path, tls: Path | None = None, clients: Path | None = None, **auth: Any
) -> Iterator[str]:
    """Run docker-registry and yield its HOST:PORT.

    `clients`: the authority that clients need a certificate of; `auth`: that section of its
    configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    more = {"clientcas": [str(clients)]} if clients else {}
    secure = {"tls": {"certificate": f"{tls}.crt", "key": f"{tls}.key", **more}} if tls else {}
    (folder / "config.yml").write_text(json.dumps({  # JSON is YAML
        "version": "0.1", "log": {"level": "info", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")},
                    "delete": {"enabled": True}},
        "http": {"addr": "127.0.0.1:0", **secure}, **({"auth": auth} if auth else {}),
    }))  # fmt: skip
    argv = [installed("docker-registry"), "serve", str(folder / "config.yml")]
    # REGISTRY_… are settings of it; containers' REGISTRY_AUTH_FILE is not meant for it
    env = {name: value for name, value in os.environ.items() if not name.startswith("REGISTRY_")}
    process = subprocess.Popen(
        argv, stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL, env=env
    )
    assert process.stderr
    try:
        said = []
        for line in process.stderr:
            said.append(line)
            if found := re.search(r"listening on (127\.0\.0\.1:\d+)", line):
                break
        else:
            raise AssertionError("".join(said))
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield found[1]
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


def htpasswd(folder: Path) -> dict[str, Any]:
    """Return the configuration of HTTP Basic: one user."""
    folder.mkdir(parents=True, exist_ok=True)
    argv = [installed("htpasswd"), "-nbBC", "4", USER, PASSWORD]
    row = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    (folder / "htpasswd").write_text(row.strip() + "\n")
    return {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}


def no_settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the test's own folder for the user's: no settings, no credentials, no proxies."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(home / "auth.json"))
    monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(home / "registries.conf"))
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def as_docker_io(host: str, home: Path) -> None:
    """Let a registry stand for docker.io in the settings of this folder."""
    rule = f'[[registry]]\nprefix = "docker.io"\nlocation = "{host}"\n'
    (home / "registries.conf").write_text(rule)


def fill(host: str, name: str, layout: Path, *options: str) -> None:
    """Copy an OCI layout into a registry by skopeo."""
    argv = [installed("skopeo"), "--insecure-policy", "copy", "--quiet", *options,
            f"oci:{layout}", f"docker://{host}/{name}"]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


def layout(folder: Path, *layers: dict[str, bytes], **config: Any) -> Path:
    """Write an OCI layout of an image; each layer is path → content."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(data: bytes, kind: str) -> dict[str, Any]:
        found = hashlib.sha256(data).hexdigest()
        (blobs / found).write_bytes(data)
        media_type = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media_type, "digest": f"sha256:{found}", "size": len(data)}

    archives = [_archive(each) for each in layers]
    diff_ids = [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in archives]
    document = {"os": "linux", "architecture": "amd64", "config": config,
                "rootfs": {"type": "layers", "diff_ids": diff_ids}}  # fmt: skip
    manifest = {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": put(json.dumps(document).encode(), "config.v1+json"),
        "layers": [put(gzip.compress(each, 1, mtime=0), "layer.v1.tar+gzip") for each in archives],
    }  # fmt: skip
    top = put(json.dumps(manifest).encode(), "manifest.v1+json")
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [top]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder


def _archive(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            row = tarfile.TarInfo(name)
            row.size, row.mode = len(data), 0o755
            tar.addfile(row, io.BytesIO(data))
    return out.getvalue()
