"""registries.conf: where a name leads, in the cases of containers-registries.conf(5)."""

from pathlib import Path

import pytest

from minirun.core.errors import ImageError
from rootfs_tools.grammar import parse
from rootfs_tools.registry import settings


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CONTAINERS_REGISTRIES_CONF", raising=False)
    (tmp_path / "etc" / "registries.conf.d").mkdir(parents=True)
    return tmp_path / "etc"


def places(etc: Path, name: str) -> list[str]:
    found = settings.load(str(etc)).endpoints(name, parse(name))
    return [f"{each}{' insecure' if each.insecure else ''}" for each in found]


def test_without_settings_a_short_name_is_docker_s(etc: Path) -> None:
    assert places(etc, "ubuntu:22.04") == ["docker.io/library/ubuntu"]
    assert places(etc, "localhost:5000/a/b") == ["localhost:5000/a/b"]


def test_mirrors_come_first_and_the_longest_prefix_counts(etc: Path) -> None:
    (etc / "registries.conf").write_text("""
        [[registry]]
        location = "docker.io"
        [[registry.mirror]]
        location = "127.0.0.1:5000/hub"
        insecure = true
        [[registry]]
        prefix = "docker.io/team"
        location = "team.example/images"
    """)
    assert places(etc, "ubuntu") == ["127.0.0.1:5000/hub/library/ubuntu insecure",
                                     "docker.io/library/ubuntu"]  # fmt: skip
    assert places(etc, "team/app") == ["team.example/images/app"]
    assert places(etc, "teams/app")[-1] == "docker.io/teams/app"  # a prefix ends at a slash


def test_mirrors_for_digests_and_for_tags(etc: Path) -> None:
    (etc / "registries.conf").write_text("""
        [[registry]]
        location = "a.example"
        [[registry.mirror]]
        location = "digests.example"
        pull-from-mirror = "digest-only"
        [[registry.mirror]]
        location = "tags.example"
        pull-from-mirror = "tag-only"
        [[registry]]
        location = "b.example"
        mirror-by-digest-only = true
        [[registry.mirror]]
        location = "digests.example"
    """)
    assert places(etc, "a.example/x:1") == ["tags.example/x", "a.example/x"]
    assert places(etc, f"a.example/x@sha256:{'0' * 64}") == ["digests.example/x", "a.example/x"]
    assert places(etc, "b.example/x:1") == ["b.example/x"]


def test_subdomains(etc: Path) -> None:
    (etc / "registries.conf").write_text("""
        [[registry]]
        prefix = "*.example.com"
        insecure = true
        [[registry]]
        prefix = "*.example.org"
        location = "one.example/all"
    """)
    assert places(etc, "a.example.com/x") == ["a.example.com/x insecure"]
    assert places(etc, "a.example.org/x/y") == ["one.example/all/x/y"]
    assert places(etc, "example.com/x") == ["example.com/x"]


def test_blocked(etc: Path) -> None:
    (etc / "registries.conf").write_text('[[registry]]\nlocation = "a.example"\nblocked = true\n')
    with pytest.raises(ImageError, match=r"a\.example is blocked in registries.conf"):
        places(etc, "a.example/x")


def test_search_aliases_and_enforcing(etc: Path) -> None:
    (etc / "registries.conf").write_text("""
        unqualified-search-registries = ["one.example", "docker.io"]
        [aliases]
        "tool" = "two.example/kit/tool"
    """)
    assert places(etc, "app:1") == ["one.example/app", "docker.io/library/app"]
    assert places(etc, "tool:1") == ["two.example/kit/tool"]
    assert places(etc, "docker.io/library/tool") == ["docker.io/library/tool"]
    (etc / "registries.conf.d" / "x.conf").write_text('short-name-mode = "enforcing"\n')
    with pytest.raises(ImageError, match=r'short-name "app" may mean an image of one\.example'):
        places(etc, "app")


def test_a_later_file_replaces_and_the_user_s_own_stands_alone(etc: Path, tmp_path: Path) -> None:
    (etc / "registries.conf").write_text('[[registry]]\nlocation = "a.example"\ninsecure = true\n')
    (etc / "registries.conf.d" / "9.conf").write_text('[[registry]]\nlocation = "a.example"\n')
    assert places(etc, "a.example/x") == ["a.example/x"]
    own = tmp_path / "home" / ".config" / "containers"
    own.mkdir(parents=True)
    (own / "registries.conf").write_text('[[registry]]\nprefix = "a.example"\nlocation = "b.test"')
    assert places(etc, "a.example/x") == ["b.test/x"]


@pytest.mark.parametrize(
    "text",
    ["[[registry]", 'unqualified-search-registries = "a"', "[[registry]]\n", "registry = 3",
     '[registries.search]\nregistries = ["a"]', 'short-name-mode = "often"',
     '[[registry]]\nlocation = "a"\ninsecure = "yes"', "\udcff"],
)  # fmt: skip
def test_a_broken_file_is_one_line_that_names_it(etc: Path, text: str) -> None:
    (etc / "registries.conf").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ImageError, match=r"etc/registries\.conf: ") as caught:
        places(etc, "ubuntu")
    assert "\n" not in caught.value.line()
