"""What NVIDIA's driver consists of in user space, and which capability brings which file.

The order is the order in which the real nvidia-container-cli mounts. Names without a version: the
driver's file is NAME.VERSION for a library. Measured with the real program; libraries that a
driver of today does not ship any more (fatbinaryloader, compiler, ifr, cbl) are looked for too,
since an older host has them.
"""

_COMPUTE = "compute video"
_GRAPHICS = "graphics display"
"""Capabilities, one of which is enough."""

LD_SO_CACHE = "/etc/ld.so.cache"
"""The loader's, in which the driver's libraries are found: minirun.gpu.nvidia.shared.ldcache."""

_LIBRARIES = {
    "utility": "nvidia-ml nvidia-cfg nvidia-nscq",
    _COMPUTE: "cuda cudadebugger nvidia-opencl nvidia-gpucomp nvidia-ptxjitcompiler"
    " nvidia-fatbinaryloader nvidia-allocator nvidia-compiler nvidia-pkcs11"
    " nvidia-pkcs11-openssl3 nvidia-nvvm nvidia-nvvm70 nvidia-tileiras",
    "ngx": "nvidia-ngx",
    "video": "vdpau_nvidia nvidia-encode nvidia-opticalflow nvcuvid",
    _GRAPHICS: "nvidia-eglcore nvidia-glcore nvidia-tls nvidia-glsi nvidia-fbc nvidia-ifr"
    " nvidia-rtcore nvoptix GLX_nvidia EGL_nvidia GLESv2_nvidia GLESv1_CM_nvidia"
    " nvidia-glvkspirv nvidia-cbl",
}
LIBRARIES = tuple(
    (f"lib{name}.so", needs) for needs, names in _LIBRARIES.items() for name in names.split()
)
"""(library, capabilities)."""

BINARIES = (
    ("nvidia-smi", "utility"),
    ("nvidia-debugdump", "utility"),
    ("nvidia-persistenced", "utility"),
    ("nv-fabricmanager", "utility"),
    ("nvidia-cuda-mps-control", "compute"),
    ("nvidia-cuda-mps-server", "compute"),
)

SOCKETS = (
    ("/run/nvidia-persistenced/socket", "utility"),
    ("/run/nvidia-fabricmanager/socket", "utility"),
)
MPS_PIPES, MPS_NEEDS = "/tmp/nvidia-mps", _COMPUTE

NVIDIA, CTL_MINOR, MODESET_MINOR = 195, 255, 254
NODES = (
    ("/dev/nvidiactl", "nvidia", CTL_MINOR, ""),
    ("/dev/nvidia-uvm", "nvidia-uvm", 0, _COMPUTE),
    ("/dev/nvidia-uvm-tools", "nvidia-uvm", 1, _COMPUTE),
    ("/dev/nvidia-modeset", "nvidia", MODESET_MINOR, "display"),
)
"""(path, name of the major in /proc/devices, minor, capabilities)."""

IMEX = "nvidia-caps-imex-channels"
CAPS_FOLDER, IMEX_FOLDER = "/dev/nvidia-caps", f"/dev/{IMEX}"


def firmware_folder(driver: str) -> str:
    """Where the GSP firmware of a driver version lies."""
    return f"/lib/firmware/nvidia/{driver}"


MIG_MINORS = 15 * 9
"""How many minors of nvidia-caps belong to one GPU."""


def mig_minor(gpu: int, gi: int, ci: int = -1) -> int:
    """Return the nvidia-caps minor of a gpu instance, or of a compute instance in it.

    As in /proc/driver/nvidia-caps/mig-minors: 1 is config, 2 monitor; then for each GPU 15 gpu
    instances, each followed by its 8 compute instances.
    """
    return 3 + gpu * MIG_MINORS + gi * 9 + (0 if ci < 0 else 1 + ci)
