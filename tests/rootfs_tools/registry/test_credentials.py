"""Who the user is: auth.json, docker's config.json, and real helpers (scripts)."""

import base64
import json
from pathlib import Path

import pytest

from minirun.core.errors import ImageError
from rootfs_tools.registry import credentials
from rootfs_tools.registry.credentials import Credentials

HELPER = """#!/usr/bin/python3
import json, os, sys
path, said = os.path.join(os.path.dirname(__file__), "kept.json"), sys.stdin.read()
kept = json.load(open(path)) if os.path.exists(path) else {}
if sys.argv[1] == "get":
    if said not in kept:
        sys.exit("credentials not found in native keychain")
    print(json.dumps(kept[said]))
elif sys.argv[1] == "store":
    kept[json.loads(said)["ServerURL"]] = json.loads(said)
else:
    del kept[said]
json.dump(kept, open(path, "w"))
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    for name in ("REGISTRY_AUTH_FILE", "DOCKER_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def helper(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = home / "bin" / "docker-credential-test"
    program.parent.mkdir()
    program.write_text(HELPER)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return program.parent / "kept.json"


def write(path: Path, **document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def entry(text: str) -> dict[str, str]:
    return {"auth": base64.b64encode(text.encode()).decode()}


def test_docker_s_own_names_of_docker_io(home: Path) -> None:
    auths = {"https://index.docker.io/v1/": entry("a:b:c")}
    write(home / ".docker/config.json", auths=auths)
    assert credentials.find("docker.io", "library/ubuntu") == Credentials("a", "b:c")
    assert credentials.find("docker.io.example") is None


def test_the_longest_namespace_counts_and_the_first_file(home: Path) -> None:
    write(home / ".docker/config.json", auths={"a.example": entry("docker:1")})
    write(home / "run/containers/auth.json", auths={
        "a.example/team": entry("team:1"), "a.example/team/app": entry("app:1")})  # fmt: skip
    assert credentials.find("a.example", "team/app") == Credentials("app", "1")
    assert credentials.find("a.example", "team/apple") == Credentials("team", "1")
    assert credentials.find("a.example", "other") == Credentials("docker", "1")
    assert credentials.find("b.example", "a.example") is None


def test_an_identity_token(home: Path) -> None:
    write(home / ".docker/config.json", auths={"a.example": {"identitytoken": "T"}})
    assert credentials.find("a.example") == Credentials("", "", "T")


def test_stored_as_podman_stores_it(home: Path) -> None:
    write(home / "run/containers/auth.json", auths={"b.example": entry("x:y")}, other=1)
    path = Path(credentials.store("a.example:5000", Credentials("mona", "påss:1")))
    assert path.stat().st_mode & 0o777 == 0o600
    kept = json.loads(path.read_text())
    assert kept["other"] == 1
    assert kept["auths"]["b.example"] == entry("x:y")
    assert credentials.find("a.example:5000") == Credentials("mona", "påss:1")
    assert credentials.erase("a.example:5000")
    assert not credentials.erase("a.example:5000")
    assert credentials.find("a.example:5000") is None
    assert [each.name for each in path.parent.iterdir()] == ["auth.json"]


@pytest.mark.parametrize("key", ["credsStore", "credHelpers"])
@pytest.mark.parametrize(
    ("host", "known_by"),
    [("a.example", "a.example"), ("docker.io", "https://index.docker.io/v1/")],
)
def test_a_helper_keeps_them(
    home: Path, helper: Path, key: str, host: str, known_by: str
) -> None:  # fmt: skip
    names: object = "test" if key == "credsStore" else {known_by: "test"}
    write(home / "run/containers/auth.json", **{key: names})
    assert credentials.find(host) is None
    assert credentials.store(host, Credentials("m", "p")) == "docker-credential-test"
    assert "auths" not in json.loads((home / "run/containers/auth.json").read_text())
    assert list(json.loads(helper.read_text())) == [known_by]
    assert credentials.find(host) == Credentials("m", "p")
    assert credentials.erase(host)
    assert credentials.find(host) is None
    assert json.loads(helper.read_text()) == {}


def test_a_helper_with_a_token(home: Path, helper: Path) -> None:
    write(home / ".docker/config.json", credsStore="test")
    write(helper, **{"https://index.docker.io/v1/": {"Username": "<token>", "Secret": "T"}})
    assert credentials.find("docker.io") == Credentials("", "", "T")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "not JSON"), ("[]", "not an object"), ('{"auths": 3}', "auths: not an object"),
        ('{"auths": {"a.example": {"auth": "%%"}}}', "auth is not base64"),
        ('{"credsStore": "../x"}', "no name of a credential helper"),
        ('{"credsStore": "missing"}', "docker-credential-missing is not installed"),
        ("[" * 100000, "not JSON"),
    ],
)  # fmt: skip
def test_a_broken_file_is_one_line(home: Path, document: str, said: str) -> None:
    path = home / ".docker/config.json"
    path.parent.mkdir()
    path.write_text(document)
    with pytest.raises(ImageError, match=said):
        credentials.find("a.example")


def test_a_helper_that_fails(home: Path, helper: Path) -> None:
    write(home / ".docker/config.json", credsStore="test")
    helper.write_text("{")
    with pytest.raises(ImageError, match=r"docker-credential-test get: \S*JSONDecodeError"):
        credentials.find("a.example")
