"""A CRIU that works on this kernel: the installed one, else Debian 13's, unpacked, not installed.

CRIU knows the layout of a kernel's vDSO, and an older CRIU refuses a newer kernel. Debian 13's
comes from the machine's own mirror, checked against SHA256, with every library that it needs and
their loader; a script of two lines calls it by way of that loader. All of it lies in build/criu/,
under a key of what it was made from. A file that Debian has replaced since is pinned anew here.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from minirun.core.errors import ImageError
from rootfs_tools.recipe import aptsources

BUILD = Path(__file__).resolve().parents[3] / "build" / "criu"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
PACKAGES = (
    ("c/criu/criu_4.1.1-1_amd64.deb",
     "f3120d90b37d893879213d799c83696d6175ac8df3dc290e4e6c1fd0d2c2f82f"),
    ("g/glibc/libc6_2.41-12+deb13u4_amd64.deb",
     "967aa62605721081c3eb2a17650611a792aa802d76a6511d1840242623d204c9"),
    ("g/gmp/libgmp10_6.3.0+dfsg-3_amd64.deb",
     "d0d0265eb01770f17afd0f7c8c0622f80479dcfbbe13653a0debeec61464e622"),
    ("g/gnutls28/libgnutls30t64_3.8.9-3+deb13u4_amd64.deb",
     "18a8bdfd91c7e3bcb01719d55a2b56849c7160b34f1f52b1c4fdfdd41bf1352b"),
    ("i/iptables/libxtables12_1.8.11-2_amd64.deb",
     "4de5aa59faef5e98d6ba9f5f521a915be5641f224f597862f8d29e8319e8db16"),
    ("j/jansson/libjansson4_2.14-2+b3_amd64.deb",
     "60707a62fe6c1228c3389b12a13ca4efd76defc5532473e547a29e99cf7d2a6e"),
    ("libb/libbsd/libbsd0_0.12.2-2_amd64.deb",
     "e5a85986fa6bec3307ab1bc860736b478b331882bc45e17675a7bdf88eecb43a"),
    ("libf/libffi/libffi8_3.4.8-2_amd64.deb",
     "0ebdc340de33333639c3c63874cd4b15ac2e83dfa1ef3053b7eefaf4919f4f68"),
    ("libi/libidn2/libidn2-0_2.3.8-2_amd64.deb",
     "90b039bcdc4578f8e1c4935adf8dbb525e36a164deefdbbb8c45bac347d48278"),
    ("libm/libmd/libmd0_1.1.0-2+b1_amd64.deb",
     "7244ec3839b61fac0c1884fe08aaa040f26e8f1f35f1f5d3482eacefd30d1b44"),
    ("libm/libmnl/libmnl0_1.0.5-3_amd64.deb",
     "4ec9c1096e0b954e3bdb03a62314ee7f49999045d3d55be3e4ded520ffc9baf5"),
    ("libn/libnet/libnet1_1.3+dfsg-2_amd64.deb",
     "4b5010133738d5dbc236fb8b3fbcef0e3449503541155388b0910bc20be7abee"),
    ("libn/libnftnl/libnftnl11_1.2.9-1_amd64.deb",
     "1b3eae46bfb9c6ab44e404797fb45278045f926d73974a84097ad47a3e27d983"),
    ("libn/libnl3/libnl-3-200_3.7.0-2_amd64.deb",
     "ce5c153953016be42def7b105f37d55eae07a9608d1dfe6bcb03cc017fc384cb"),
    ("libt/libtasn1-6/libtasn1-6_4.20.0-2+deb13u1_amd64.deb",
     "23fec6e06583ce2bad9b2c04c9b485e90440e259b1abf8677cd80d3ce60831ad"),
    ("libu/libunistring/libunistring5_1.3-2_amd64.deb",
     "6dd3490bef06ea1096f32d10766b7e016cf579bfae8451d1b7df15ce05b8aa46"),
    ("n/nettle/libhogweed6t64_3.10.1-1_amd64.deb",
     "b059ed155115ac09da295322de48ee1ed58ef5fa45edcc9e12ff0e94636ef25f"),
    ("n/nettle/libnettle8t64_3.10.1-1_amd64.deb",
     "1b03d4a9cd9c8143ba50fe6396f36937e901a317d492d179f4596862c1731cfe"),
    ("n/nftables/libnftables1_1.1.3-1_amd64.deb",
     "c7cbee3dce8452ae5c3c4269f6f52e96b896d36a46ea3c490e0e11e8ff359896"),
    ("p/p11-kit/libp11-kit0_0.25.5-3_amd64.deb",
     "784bf2063e166c8bc851a32623b74ebd85c499043a9d57c5bbd64fa63447f45a"),
    ("p/protobuf-c/libprotobuf-c1_1.5.1-1_amd64.deb",
     "9fa7e6932f620c7155aab365ed277f04cae3e04ac80ee048fb09d1e838738d14"),
    ("u/util-linux/libuuid1_2.41.5-0+deb13u1_amd64.deb",
     "c1bf4c4c3ff48c57fabf93307dfb56996b60cfa33927afc4158b5db36fb2721e"),
)  # fmt: skip
"""(path below pool/main, SHA256) of each package, all of trixie."""


class Unreachable(Exception):
    """There is no CRIU to be had; the text says why."""


def directory() -> str:
    """Return a directory with a criu that passes its own check, for PATH. Raises Unreachable."""
    installed = shutil.which("criu")
    if installed and not check(installed):
        return os.path.dirname(installed)
    path = _unpacked()
    if problem := check(f"{path}/criu"):
        raise Unreachable(f"Debian 13's criu check: {problem}")
    return str(path)


def check(program: str) -> str:
    """Return what `criu check` complains of, "" where it is content."""
    done = subprocess.run([program, "check"], capture_output=True, text=True, check=False)
    text = (done.stderr or done.stdout).strip().splitlines()
    return (text[0] if text else "it said nothing") if done.returncode else ""


def _unpacked() -> Path:
    """Return the directory with Debian 13's criu, fetching it where it is not there."""
    if platform.machine() != "x86_64":
        raise Unreachable(f"the packages listed are not for {platform.machine()}")
    key = hashlib.sha256(repr(PACKAGES).encode()).hexdigest()[:16]
    BUILD.mkdir(parents=True, exist_ok=True)
    done = BUILD / key
    with open(BUILD / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of the workers of a test run, one fetches it
        if not done.is_dir():
            with tempfile.TemporaryDirectory(dir=BUILD, prefix=".new-") as scratch:
                _unpack(_download(Path(scratch)), Path(scratch, "done"))
                _write_script(Path(scratch, "done"), done)
                os.rename(Path(scratch, "done"), done)
    return done


def _download(scratch: Path) -> list[Path]:
    """Return the packages, with apt's own downloader: its proxies, its check of the sums."""
    try:
        mirror = aptsources.read(platform.freedesktop_os_release()["VERSION_CODENAME"]).mirror
    except (ImageError, OSError, KeyError) as error:
        raise Unreachable(f"Debian 13's criu cannot be fetched: {error}") from None
    words, files = [], []
    for path, sha256 in PACKAGES:
        files.append(scratch / Path(path).name)
        words += [f"{mirror.rstrip('/')}/pool/main/{path}", str(files[-1]), f"SHA256:{sha256}"]
    helper = ["/usr/lib/apt/apt-helper", "-o", "APT::Sandbox::User=root", "download-file"]
    done = subprocess.run([*helper, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        raise Unreachable(f"Debian 13's criu cannot be fetched: {(lines or ['no reason said'])[0]}")
    return files


def _unpack(packages: list[Path], target: Path) -> None:
    for package in packages:
        subprocess.run(["dpkg", "-x", package, target], check=True)


def _write_script(made: Path, final: Path) -> None:
    libraries = final / LIBRARIES
    loader = f"{libraries}/ld-linux-x86-64.so.2 --library-path {libraries}"
    script = made / "criu"
    script.write_text(f'#!/bin/sh\nexec {loader} {final}/usr/sbin/criu "$@"\n')
    script.chmod(0o755)
