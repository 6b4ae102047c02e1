"""A driver root that an image brings along, made to steer a GPU step at the host.

Its place on the host is known before the image is: below podman's graphroot a layer lies in
overlay/DIGEST/diff.
"""

import io
import tarfile
from collections.abc import Callable

ADDRESS = "0000:00:02.0"
MAJOR, MINOR = 242, 7
"""A character device that no driver is behind: ENXIO where the cgroup allows it, else EPERM."""
Add = Callable[[tarfile.TarFile], None]


def driver(above: str, host: str) -> Add:
    """Return what adds a driver root with GPUs of Intel and AMD, in the folder `above`.

    The name by path of Intel's GPU leads to the directory `host` of the host.
    """

    def add(tar: tarfile.TarFile) -> None:
        intel = f"{above}/sys/bus/pci/drivers/i915/{ADDRESS}"
        amd = f"{above}/sys/module/amdgpu"
        gpu = f"{amd}/drivers/pci:amdgpu/{ADDRESS}"
        kfd = f"{above}/sys/class/kfd/kfd"
        number = f"{MAJOR}:{MINOR}"
        _file(tar, f"{intel}/device", "0x4680")
        _file(tar, f"{amd}/version", "6")
        _file(tar, f"{gpu}/device", "0x74a1")
        _file(tar, f"{kfd}/topology/nodes/1/properties", "unique_id 7\ndrm_render_minor 128")
        for folder in (f"{intel}/drm/renderD128", f"{gpu}/drm/renderD128", kfd):
            _file(tar, f"{folder}/dev", number)
        for name in ("dri/renderD128", "kfd"):
            member = tarfile.TarInfo(f"{above}/dev/{name}")
            member.type, member.mode = tarfile.CHRTYPE, 0o666
            member.devmajor, member.devminor = MAJOR, MINOR
            tar.addfile(member)
        for kind in ("card", "render"):
            member = tarfile.TarInfo(f"{above}/dev/dri/by-path/pci-{ADDRESS}-{kind}")
            member.type, member.linkname = tarfile.SYMTYPE, host
            tar.addfile(member)

    return add


def _file(tar: tarfile.TarFile, name: str, text: str) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(text)
    tar.addfile(member, io.BytesIO(text.encode()))
