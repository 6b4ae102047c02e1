"""buildah in a cell: what builds images, with one short-lived container per RUN."""

import shutil

from engines.clients import images
from engines.clients.engine import IMAGE, Engine, program


class Buildah(Engine):
    """buildah with storage of its own; a working container per scenario."""

    ULIMITS = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]\n'
    """Lower than its own: raising them needs CAP_SYS_RESOURCE, which this machine may lack."""

    def set_up(self) -> None:
        home = self.home
        (home / "containers.conf").write_text(self.ULIMITS)
        self.env |= {"CONTAINERS_CONF": str(home / "containers.conf"), "TMPDIR": str(home)}
        self.client = (
            program("buildah"), "--root", f"{home}/root", "--runroot", "/run/buildah",
            "--storage-driver", "overlay",
        )  # fmt: skip
        self.oci = ("--isolation", "oci", "--runtime", self.path)
        archive = images.archive(home / "image.tar", IMAGE)
        self("pull", f"docker-archive:{archive}")

    def working(self, *flags: str) -> str:
        """A working container; its name."""
        return self(
            "from", "--isolation", "oci", f"--cgroup-parent={self.cell.parent}", *flags, IMAGE
        )

    def run(self, name: str, *args: str, code: int = 0, input: str = "") -> str:
        """`buildah run` of flags, --, and a command."""
        first = next((n for n, word in enumerate(args) if not word.startswith("-")), len(args))
        words = ("run", *self.oci, "--network=none", *args[:first], name, "--", *args[first:])
        return self(*words, code=code, input=input)

    def bud(self, *lines: str) -> str:
        """Build an image from the lines of a Dockerfile, after FROM; return its name."""
        folder = self.home / "context"
        folder.mkdir(exist_ok=True)
        (folder / "Dockerfile").write_text("\n".join((f"FROM {IMAGE}", *lines)))
        flags = ("--network=none", "--layers=false", f"--cgroup-parent={self.cell.parent}")
        self("bud", *self.oci, *flags, "--tag=test.local/made", str(folder))
        return "test.local/made"

    def clean(self) -> None:
        self.full("rm", "--all")
        shutil.rmtree(self.home / "context", ignore_errors=True)
