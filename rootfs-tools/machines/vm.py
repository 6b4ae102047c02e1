"""A disk image with minirun set up in it, for a laptop that has QEMU and no Linux: `make vm`.

`make vm` gives Debian 13 for this machine's processor, `make vm SUITE=trixie:arm64` for a Mac's.
The image is made on Debian or Ubuntu, as root; what is written to build/vm goes to the laptops:

    disk.qcow2          the file system, compressed; what one does in the machine is written to it
    vmlinuz initrd.img  Debian's kernel and its first files: QEMU loads them, no boot loader does
    START.txt           one line for each system, which starts the machine

In it README's own steps were done: a checkout, `make setup`, .venv/bin in PATH; beside them stand
JupyterLab and the images busybox and ubuntu. root is logged in on the console: the terminal that
QEMU was started in. Two ports of the laptop's own address 127.0.0.1 lead to the same ones in the
machine: 8888 is JupyterLab's (`make lab`), 8080 for `minirun run --step --web=8080`. Both programs
listen on the machine's 127.0.0.1 alone; systemd-socket-proxyd(8) passes on what comes from QEMU.

In QEMU's user mode no image can be built (7.2 knows no openat2(2)): the machine of another
processor has none, and `make demo` in it builds ubuntu.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from machines import guests
from machines.bare import CLONE, TOP, Bare, folder

TARGET = TOP / "build" / "vm"
DISK_GIB = 8
MEMORY_MIB = 4096
LAB, WEB = 8888, 8080
ADDRESS = "10.0.2.15"
"""The guest's, in QEMU's user network; 10.0.2.2 is the way out, 10.0.2.3 answers names."""
PACKAGES = (
    "initramfs-tools", "systemd-sysv", "udev", "dbus", "e2fsprogs", "make", "git", "iproute2",
    "procps", "less", "nano", "tmux", "strace", "ca-certificates", "kmod", "busybox-static",
)  # fmt: skip
KERNEL = "root=/dev/vda rw console={} quiet net.ifnames=0"
ACCELERATORS = {"Linux": "kvm", "macOS": "hvf", "Windows": "whpx,kernel-irqchip=off"}
"""QEMU takes the next of its -accel, tcg, if the first cannot be had."""
NOTES = {
    "Linux": "Debian, Ubuntu: apt-get install {package}",
    "macOS": "not tried. brew install qemu",
    "Windows": "not tried. QEMU's folder must be in PATH; the feature is called Windows"
    " Hypervisor Platform",
}
FILES = {
    "etc/hostname": "minirun\n",
    "etc/hosts": "127.0.0.1 localhost minirun\n::1 localhost\n",
    "etc/fstab": "/dev/vda / ext4 rw 0 1\n",
    "etc/resolv.conf": "nameserver 10.0.2.3\n",
    "etc/systemd/network/20-qemu.network": f"""[Match]
Name=eth0
[Network]
Address={ADDRESS}/24
Gateway=10.0.2.2
""",
    "etc/systemd/system/forward@.socket": f"""[Unit]
Description=port %i of the laptop, for a program on this machine's 127.0.0.1
[Socket]
ListenStream={ADDRESS}:%i
FreeBind=true
""",
    "etc/systemd/system/forward@.service": """[Service]
ExecStart=/usr/lib/systemd/systemd-socket-proxyd 127.0.0.1:%i
""",
    "etc/systemd/system/serial-getty@.service.d/root.conf": """[Service]
ExecStart=
ExecStart=-/sbin/agetty --autologin root --noclear --keep-baud 115200,9600 - vt220
""",
    "etc/profile.d/minirun.sh": f"""export PATH="/{CLONE}/.venv/bin:$PATH"
cd /{CLONE}
""",
    "etc/motd": f"""
  minirun run --rm --gpus 0,1 ubuntu sh -c 'ls -l /dev; nvidia-smi -L'
  minirun run --rm --step --web={WEB} --gpus 0,1 ubuntu true    opens on the laptop
  make lab JUPYTER=--no-browser                                 so does this
  poweroff                                                      ends the machine

""",
}
WANTS = {
    "multi-user.target.wants/systemd-networkd.service": "/usr/lib/systemd/system",
    f"sockets.target.wants/forward@{LAB}.socket": "/etc/systemd/system",
    f"sockets.target.wants/forward@{WEB}.socket": "/etc/systemd/system",
}
"""Link → folder of the unit that it starts."""
LENT = ("etc/pip.conf", "root/.config/pip", "root/certificates", "root/.cache", "left")
"""What is of the machine on which the image is made, and has to stay there."""


def start_line(system: str, guest: guests.Guest) -> str:
    """Return the line that starts the machine on a system, in the folder of the image.

    It has double quotes alone, which a shell and Windows' cmd read in one way.
    """
    forwards = "".join(f",hostfwd=tcp:127.0.0.1:{port}-:{port}" for port in (LAB, WEB))
    board = "".join(f"{word} " for word in guest.board)
    return (
        f"{guest.program} {board}-accel {ACCELERATORS[system]} -accel tcg -cpu {guest.any_cpu}"
        f" -smp 2 -m {MEMORY_MIB} -nographic -kernel vmlinuz -initrd initrd.img"
        f' -append "{KERNEL.format(guest.console)}" -drive file=disk.qcow2,if=virtio'
        f" -nic user,model=virtio-net-pci{forwards}"
    )


def start_text(guest: guests.Guest) -> str:
    """Return START.txt."""
    lines = ["Type this in the folder of these files; Ctrl-A and then X ends QEMU by force."]
    lines += ["If QEMU ends with an error of its accelerator, leave the first -accel out.", ""]
    for system, note in NOTES.items():
        lines += [f"{system} ({note.format(package=guest.package)}):", ""]
        lines += [f"    {start_line(system, guest)}", ""]
    return "\n".join(lines)


def make(suite: str) -> Path:
    """Make the image of a release, such as trixie:arm64, and return its folder."""
    guest, release = guests.of(suite), suite.partition(":")[0]
    target = TARGET / suite.replace(":", "-")
    TARGET.mkdir(parents=True, exist_ok=True)
    with folder() as place, tempfile.TemporaryDirectory(dir=TARGET) as name:
        bare = Bare(place / "root", suite, [], (guest.kernel(release), *PACKAGES))
        images = ("store", "IMAGES=busybox ubuntu") if bare.is_native else ("setup",)
        row = bare.make(*images, ".venv/.lab")
        assert row.status == 0, "make failed in the bare Debian"
        _furnish(bare.path, bare.env["LENT"].split())
        new = Path(name)
        guests.write_disk(bare.path, new, DISK_GIB)
        compress = ["qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2"]
        subprocess.run([*compress, new / "disk", new / "disk.qcow2"], check=True)
        (new / "disk").unlink()
        (new / "START.txt").write_text(start_text(guest))
        new.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        os.rename(new, target)
        os.mkdir(new)  # for TemporaryDirectory to remove
    return target


def _furnish(root: Path, lent: list[str]) -> None:
    """Make of a bare Debian a machine that one logs in to, with nothing of this one in it."""
    for name in (*LENT, *(each.lstrip("/") for each in lent)):
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for pattern in ("var/lib/apt/lists/*", "var/cache/apt/archives/*.deb", "var/cache/apt/*.bin"):
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).unlink(missing_ok=True)
        (root / name).write_text(text)
    for name, units in WANTS.items():
        unit = re.sub(r"@\d+", "@", Path(name).name)
        link = root / "etc/systemd/system" / name
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(f"{units}/{unit}")
    (root / "root/minirun").symlink_to(f"/{CLONE}")


def main() -> int:
    """Make the image, and print how it is started."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", default="trixie", help="a release of Debian: %(default)s")
    suite = parser.parse_args().suite
    if suite.partition(":")[2] not in ("", *guests.GUESTS):
        parser.error(f"--suite {suite}: a release, or RELEASE:{' or RELEASE:'.join(guests.GUESTS)}")
    target = make(suite)
    megabytes = sum(path.stat().st_size for path in target.iterdir()) / 1e6
    print((target / "START.txt").read_text())
    print(f"{target.relative_to(TOP)}: {megabytes:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
