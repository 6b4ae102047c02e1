"""Spoilt Dockerfiles and patterns end in an ImageError, or in nothing. Seconds and seed as in
rootfs_tools/test_hostile_layers.py.
"""

import os
import random
import time

from minirun.core.errors import ImageError
from rootfs_tools.dockerfile.evaluate import StageState
from rootfs_tools.dockerfile.ignore import Ignore
from rootfs_tools.dockerfile.parse import parse
from tests.rootfs_tools.test_hostile_layers import SECONDS

SEED = """# escape=\\
ARG TAG=latest
FROM --platform=linux/amd64 base:$TAG AS build
ARG VERSION=1
ENV ONE=1 TWO="two words" THREE=three\\ more FOUR=${FIVE:-six}
RUN --mount=type=cache,target=/c,id=x,uid=1 --network=none make \\
  # comment
  all
COPY --chown=a:b --chmod=755 --from=0 ["a b", "c"] ./
LABEL a="b c" d='$e'
EXPOSE 80 53/udp 8000-8002
HEALTHCHECK --interval=1m30s --retries=2 CMD ["true"]
ENV CUT=${TWO#t*} END=${TWO%%w} NEW=${TWO//w/\\/} SET=${ONE:?no}
COPY --exclude=*.md --parents <<one <<-'two' a /x/
$ONE
one
\ttwo
RUN --mount=type=secret,id=s,env=S --mount=type=bind,source=a,target=b,rw <<EOF cat
x
EOF
SHELL ["/bin/sh", "-c"]
VOLUME ["/a"]
ENTRYPOINT ["a"]
WORKDIR b
USER 1:2
CMD echo
"""
BITS = (
    "$", "{", "}", '"', "'", "\\", "\n", "=", "--", "[", "]", ",", "<<EOF", "${A:-", "#", "\0",
    "${A##*", "${A//", "%", "?", "<<-'E'", "\u2028", "\x0c", "\n\tE\n",
    "\ufeff", "٣", "--mount=type=cache,", '"a":', "/", "..", "*", "**/", "!", "[!", "\ud800",
)  # fmt: skip
PATTERN = ("a", "*", "**/", "/", "[", "]", "?", "!", "-", "\\", "..", "\n", "^", "a-", "&&", "#")


def _spoilt(chance: random.Random) -> str:
    text = list(SEED)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(text))
        text[at : at + chance.choice((0, 1, 5, 40))] = chance.choice(("", *BITS))
    return "".join(text)


def test_fuzz() -> None:
    seed = int(os.environ.get("MINIRUN_FUZZ_SEED") or time.time_ns())
    chance = random.Random(seed)
    end, count = time.monotonic() + SECONDS / 6, 0
    while time.monotonic() < end:
        count += 1
        try:
            file = parse(_spoilt(chance))
            for stage in file.stages:
                state = StageState({}, {"VERSION": "2"}, {"A": "1"}, file.escape)
                for each in stage.instructions:
                    state.take(each)
        except ImageError:
            pass
        try:
            assert ("a/b-c/d" in Ignore("".join(chance.choices(PATTERN, k=12)))) in (True, False)
        except ImageError:
            pass
    assert count > 100, seed
