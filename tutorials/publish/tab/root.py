"""The machine's files: Debian's packages for i386, minirun's own source, and two images.

mmdebstrap installs the packages; minirun's wheels come from PyPI, in the versions that stand here.
What is compiled, is compiled by the machine's own Python, in a chroot: the machine that makes the
site can execute programs of 32 bits, as every x86-64 kernel of Debian can.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tutorials.publish.notebooks import ROOT

SUITE = "bookworm"
"""Debian 12, the last with a kernel for i386; its point releases alone, so that versions stay."""
MIRROR = "http://deb.debian.org/debian"
BASE = ("procps", "usr-is-merged")
"""What the image has beside the packages of mmdebstrap's variant minbase."""
PACKAGES = (
    *BASE, "busybox-static", "iproute2", "kmod", "less", "libseccomp2", "nano", "nftables",
    "python-is-python3", "python3", "python3-dnspython", "python3-prctl", "python3-yaml", "strace",
    "tmux",
)  # fmt: skip
KERNEL = "linux-image-686"
WHEELS = (
    "backports.zstd==1.8.0", "jeepney==0.9.0", "markdown-it-py==4.3.0", "mdurl==0.1.2",
    "nvidia-ml-py==13.615.71", "pygments==2.21.0", "pyroute2==0.9.7", "rich==15.0.0",
    "tomlkit==0.15.2", "urllib3==2.8.0",
)  # fmt: skip
"""What pyproject.toml requires, and what that needs; PyYAML is Debian's."""
PLATFORMS = ("manylinux_2_28_i686", "manylinux_2_12_i686", "any")
MODULES = (
    "ata_piix", "sd_mod", "squashfs", "overlay", "virtio_pci", "virtio_console", "bridge", "veth",
    "crc32c_generic", "nf_tables", "nft_chain_nat", "nft_masq", "nft_nat", "nft_ct", "nft_redir",
    "nft_fib_inet", "nft_reject_inet", "nft_limit", "nf_conntrack_netlink", "dummy", "tun",
    "macvlan", "ipvlan", "loop", "ext4", "sch_tbf", "sch_htb", "ifb",
)  # fmt: skip
BOOT = MODULES[:6]
"""The kernel's modules without which the disk, and the terminal, are not there."""
SOURCE = ("minirun", "rootfs-tools", "tutorials", "README.md", "LICENSE", "pyproject.toml")
GUEST_FILES = {
    "start": "opt/start", "picture.py": "opt/picture.py", "inittab": "etc/inittab",
    "profile.sh": "etc/profile.d/tab.sh",
}  # fmt: skip
"""File of guest/ → where it is in the machine; its init is the initrd's."""
HOME = "opt/minirun"
"""Where minirun's source lies in the machine."""
GUEST = Path(__file__).with_name("guest")
PLACE = "usr/local/lib/python3.11/dist-packages"
DEBIAN = "usr/lib/python3/dist-packages"


def make(work: Path) -> Path:
    """Make the machine's root in `work`, and return it. Raises CalledProcessError."""
    image, root = work / "image", work / "root"
    _bootstrap(image, BASE)
    kernel = 'apt-cache depends KERNEL | sed -n "s/.*Depends: //p"'.replace("KERNEL", KERNEL)
    get = f"export APT_CONFIG=$MMDEBSTRAP_APT_CONFIG; apt-get -qq download $({kernel})"
    debs = work / "kernel"
    debs.mkdir()
    _bootstrap(root, PACKAGES, f"--customize-hook=cd {debs} && {get}")
    (deb,) = debs.glob("*.deb")
    _run("dpkg-deb", "--extract", deb, debs)
    _trim(image)
    _trim(root)
    _add_modules(debs, root)
    _add_minirun(root)
    _add_images(image, root)
    _add_guest(root)
    return root


def kernel(work: Path) -> Path:
    """Return the kernel that `make` has left in `work`."""
    (found,) = (work / "kernel" / "boot").glob("vmlinuz-*")
    return found


def packages(root: Path) -> list[str]:
    """Return a line for each package of Debian's in the root: name, version."""
    command = ("dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show")
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return text.splitlines()


def _run(*argv: str | Path) -> None:
    subprocess.run(argv, check=True)


def _inside(root: Path, *argv: str) -> None:
    """Execute a program in the root, as a machine of 32 bits would."""
    shell = 'mount -t proc proc "$0/proc"; cd "$0"; exec setarch i686 chroot "$0" "$@"'
    _run("unshare", "--mount", "sh", "-euc", shell, root, *argv)


def _bootstrap(root: Path, packages: tuple[str, ...], *more: str) -> None:
    without = [f"--dpkgopt=path-exclude=/usr/share/{each}/*" for each in ("man", "locale", "info")]
    _run(
        "mmdebstrap", "--quiet", "--architectures=i386", "--variant=minbase", *without,
        "--aptopt=Apt::Install-Recommends false", f"--include={','.join(packages)}",
        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", *more, SUITE, root,
        *(f"deb {MIRROR} {suite} main" for suite in (SUITE, f"{SUITE}-updates")),
    )  # fmt: skip


def _trim(root: Path) -> None:
    """Remove what no one reads there; of the documents the licences stay."""
    for pattern in (
        "usr/share/lintian/*", "usr/share/bash-completion/*", "var/log/*", "var/cache/apt/*",
        "var/lib/apt/lists/*", "var/cache/debconf/*", "var/lib/dpkg/*-old", "dev/*", "tmp/*",
        "run/*", "etc/apt/apt.conf.d/99mmdebstrap",
    ):  # fmt: skip
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for path in (root / "usr/share/doc").rglob("*"):
        if path.is_file() and path.name != "copyright":
            path.unlink()


def _add_modules(kernel: Path, root: Path) -> None:
    """Move MODULES and what they need into the root."""
    (folder,) = (kernel / "lib/modules").iterdir()
    target = root / "usr/lib/modules" / folder.name
    shutil.move(folder, target)
    _inside(root, "depmod", folder.name)
    needed = set(ordered(target / "modules.dep", MODULES))
    for path in target.rglob("*.ko"):
        if path.relative_to(target).as_posix() not in needed:
            path.unlink()
    _inside(root, "depmod", folder.name)


def ordered(dependencies: Path, modules: tuple[str, ...]) -> list[str]:
    """Return the files of modules and of all that they need, in the order to insert them.

    `dependencies`: modules.dep(5), whose lines have what is needed last first.
    """
    lines = [line.partition(":") for line in dependencies.read_text().splitlines()]
    needs = {Path(path).stem: [*reversed(rest.split()), path] for path, _, rest in lines}
    found = (path for name in modules for path in needs[name])
    return list(dict.fromkeys(found))


def _add_minirun(root: Path) -> None:
    home = root / HOME
    ignored = shutil.ignore_patterns("__pycache__", "publish")
    for name in SOURCE:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, home / name, ignore=ignored)
        else:
            shutil.copy(path, home / name)
    python = ROOT / ".venv/bin/python"
    _run(
        python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile",
        f"--target={root / PLACE}", "--python-version=3.11", "--only-binary=:all:",
        *(f"--platform={each}" for each in PLATFORMS), *WHEELS,
    )  # fmt: skip
    for path in (root / DEBIAN).iterdir():  # yaml, dns: minirun's launcher looks in PLACE alone
        (root / PLACE / path.name).symlink_to(f"/{DEBIAN}/{path.name}")
    (root / PLACE / "minirun.pth").write_text(f"/{HOME}\n/{HOME}/rootfs-tools\n")
    compiled = ("/usr/lib/python3.11", "/usr/lib/python3", f"/{PLACE}", f"/{HOME}")
    for path in home.rglob("*"):  # squashfs keeps whole seconds, by which sources are known again
        seconds = int(path.stat().st_mtime)
        os.utime(path, (seconds, seconds))
    _inside(root, "python3", "-m", "compileall", "-q", *compiled)
    _inside(root, "python3", "-m", "minirun.fast.launcher", "/usr/local/bin/minirun")


def _add_guest(root: Path) -> None:
    """Put in what the machine executes when it starts: see guest/."""
    for name, target in GUEST_FILES.items():
        shutil.copy(GUEST / name, root / target)
    (root / "opt/start").chmod(0o755)
    (root / "usr/sbin/init").symlink_to("/bin/busybox")
    (root / "disk").mkdir()
    _name(root, "tab")


def _name(root: Path, name: str) -> None:
    """Write what mmdebstrap leaves out, or takes from the machine that it runs on."""
    for path, text in (
        ("hostname", f"{name}\n"),
        ("hosts", f"127.0.0.1\tlocalhost {name}\n::1\tlocalhost\n"),
        ("resolv.conf", ""),
    ):
        (root / "etc" / path).unlink(missing_ok=True)
        (root / "etc" / path).write_text(text)


def _add_images(image: Path, root: Path) -> None:
    """Build the images `busybox` and `ubuntu` into the machine's store, by its own minirun.

    The latter gets the files of a distribution's image, on which a container's own are mounted.
    """
    _name(image, "ubuntu")
    _inside(root, "python3", f"/{HOME}/rootfs-tools/build", "busybox")
    shutil.move(image, root / "tmp/image")
    shutil.copy(GUEST.with_name("image.py"), root / "tmp/image.py")
    _inside(root, "python3", "/tmp/image.py", "/tmp/image")
    shutil.rmtree(root / "tmp/image")
    (root / "tmp/image.py").unlink()
    lock = root / "var/lib/minirun/blobs/.lock"
    lock.unlink()  # it is opened to be written, which what lies on the disk cannot be
