"""References: docker's defaults, docker's errors."""

import pytest

from minirun.core.errors import ImageError
from rootfs_tools.grammar import parse

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("text", "printed", "domain", "path"),
    [
        ("ubuntu", "ubuntu:latest", "docker.io", "library/ubuntu"),
        ("ubuntu:22.04", "ubuntu:22.04", "docker.io", "library/ubuntu"),
        ("docker.io/library/ubuntu:latest", "ubuntu:latest", "docker.io", "library/ubuntu"),
        ("index.docker.io/ubuntu", "ubuntu:latest", "docker.io", "library/ubuntu"),
        ("nvidia/cuda:12.4-base", "nvidia/cuda:12.4-base", "docker.io", "nvidia/cuda"),
        ("registry.example/a/b/c", "registry.example/a/b/c:latest", "registry.example", "a/b/c"),
        ("localhost/x:1", "localhost/x:1", "localhost", "x"),
        ("localhost:5000/x", "localhost:5000/x:latest", "localhost:5000", "x"),
        ("Host/x", "Host/x:latest", "Host", "x"),
        (f"debian@{DIGEST}", f"debian@{DIGEST}", "docker.io", "library/debian"),
        (f"debian:12@{DIGEST}", f"debian:12@{DIGEST}", "docker.io", "library/debian"),
        ("a__b--c.d_e", "a__b--c.d_e:latest", "docker.io", "library/a__b--c.d_e"),
    ],
)
def test_parses_as_docker_does(text: str, printed: str, domain: str, path: str) -> None:
    reference = parse(text)
    assert (str(reference), reference.domain, reference.path) == (printed, domain, path)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "/", "a/", "/a", "a//b", ":tag", "a:", "a:.x", "a:-x", "a:" + "x" * 129, "a b",
        "a:b:c", "..", "../x", "a/../b", ".", "a/./b", "-a", "a-", "a..b", "a___b", "a._b",
        "ubuntu@", "ubuntu@sha256:", "ubuntu@sha256:" + "g" * 64, "ubuntu@md5:" + "a" * 32,
        "ubuntu@sha256:" + "A" * 64, "a\nb", "a\0b", "ubuntu:１", "ubuntü", "[::1]:5/x",
        "host.:5000/x", "-h.x/y", "h.x:/y", "h.x:5a/y", "ubuntu:latest@sha256:" + "a" * 63,
    ],
)  # fmt: skip
def test_refuses_in_docker_words(text: str) -> None:
    with pytest.raises(ImageError, match=r"^invalid reference format") as caught:
        parse(text)
    assert caught.value.status == 125


def test_capitals_are_named() -> None:
    with pytest.raises(ImageError, match=r"repository name \(library/Ubuntu\) must be lowercase"):
        parse("Ubuntu:latest")


def test_sixty_four_hex_digits_are_an_id_and_no_name() -> None:
    with pytest.raises(ImageError, match="cannot specify 64-byte hexadecimal strings"):
        parse("ab" * 32)


def test_a_name_has_an_end() -> None:
    parse("/".join(["a" * 80] * 3))
    with pytest.raises(ImageError, match="more than 255 characters"):
        parse("/".join(["a" * 80] * 4))
