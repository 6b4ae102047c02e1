"""The simulated driver's files: names, SONAMEs and links of the real driver's user space.

They are those of driver 550.163.01 as a distribution installs it (measured: paths, link targets,
SONAMEs, ELF class). The contents are stand-ins, and each says SIMULATED. The files that are made of
these tables are kept in the store: a change counts LAYOUT up, in minirun.gpu.simulated.

For a kernel of 32 bits NVIDIA makes no driver of this version. There its files are what those of 64
bits are elsewhere, made for that machine, and none lie beside them.
"""

from __future__ import annotations

from minirun.gpu.inventory import Gpu

REMARK = "SIMULATED by minirun: no driver is behind this file"

SONAMES = (
    "libEGL_nvidia.so.0", "libGLESv1_CM_nvidia.so.1", "libGLESv2_nvidia.so.2",
    "libGLX_nvidia.so.0", "libcuda.so.1", "libnvcuvid.so.1", "libnvidia-allocator.so.1",
    "libnvidia-encode.so.1", "libnvidia-fbc.so.1", "libnvidia-ml.so.1", "libnvidia-nvvm.so.4",
    "libnvidia-opencl.so.1", "libnvidia-opticalflow.so.1", "libnvidia-ptxjitcompiler.so.1",
    "libvdpau_nvidia.so.1",
)  # fmt: skip
"""Libraries in both widths whose file is NAME.so.VERSION and whose SONAME is shorter."""

SONAMES_64 = (
    "libcudadebugger.so.1", "libnvidia-cfg.so.1", "libnvidia-ngx.so.1", "libnvoptix.so.1",
    "libnvidia-nscq.so.2",
)  # fmt: skip

UNNAMED = ("eglcore", "glcore", "glsi", "glvkspirv", "gpucomp", "tls")
"""libnvidia-NAME.so.VERSION, whose SONAME is the file's whole name; in both widths."""

UNNAMED_64 = ("pkcs11-openssl3", "rtcore")

OWN_VERSION_64 = (
    ("libnvidia-api.so.1", "libnvidia-api.so.1"),
    ("libnvidia-egl-gbm.so.1", "libnvidia-egl-gbm.so.1.1.2"),
    ("libnvidia-egl-wayland.so.1", "libnvidia-egl-wayland.so.1.1.18"),
)
"""(SONAME, file): parts that have a version of their own."""

UNVERSIONED = ("cuda", "nvcuvid", "nvidia-encode", "nvidia-fbc", "nvidia-ml", "nvidia-opticalflow")
"""libNAME.so → libNAME.so.1, in both widths; libnvidia-ngx.so in 64 bit alone."""

BINARIES = (
    "nvidia-debugdump", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
    "nvidia-persistenced", "nvidia-modprobe", "nv-fabricmanager",
)  # fmt: skip
"""Beside nvidia-smi, which has a script of its own."""


def links(driver: str, folder: str, folder32: str) -> dict[str, str]:
    """Return path → target of every symbolic link of the driver.

    `folder32` is that of the 32-bit libraries beside its own; "" if it has none.
    """
    found = {}
    for base, names in ((folder, SONAMES + SONAMES_64), (folder32, SONAMES if folder32 else ())):
        for soname in names:
            found[f"{base}/{soname}"] = f"{soname.rpartition('.')[0]}.{driver}"
        for name in UNVERSIONED if names else ():
            found[f"{base}/lib{name}.so"] = f"lib{name}.so.1"
    found[f"{folder}/libnvidia-ngx.so"] = "libnvidia-ngx.so.1"
    found[f"{folder}/libnvidia-nscq.so.2"] = "libnvidia-nscq.so.2.0"
    found[f"{folder}/libnvidia-nscq.so.2.0"] = f"libnvidia-nscq.so.{driver}"
    for soname, file in OWN_VERSION_64[1:]:
        found[f"{folder}/{soname}"] = file
    found[f"{folder}/gbm/nvidia-drm_gbm.so"] = "../libnvidia-allocator.so.1"
    modules = "/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so"
    found[modules] = f"libglxserver_nvidia.so.{driver}"
    return found


def libraries(driver: str, wide: bool) -> dict[str, str]:
    """Return file name → SONAME of the driver's libraries in one width."""
    sonames = SONAMES + SONAMES_64 if wide else SONAMES
    found = {f"{soname.rpartition('.')[0]}.{driver}": soname for soname in sonames}
    for name in UNNAMED + UNNAMED_64 if wide else UNNAMED:
        found[f"libnvidia-{name}.so.{driver}"] = f"libnvidia-{name}.so.{driver}"
    return found | {file: soname for soname, file in OWN_VERSION_64 if wide}


def data_files(driver: str, folder: str) -> dict[str, str]:
    """Return path → content of the files that are neither library nor program."""
    egl = '{"file_format_version": "1.0.0", "comment": "SIMULATED", "ICD": {"library_path": "%s"}}'
    layers = '{"file_format_version": "1.0.1", "comment": "SIMULATED", "layers": []}'
    external = "/usr/share/egl/egl_external_platform.d"
    profiles = f"/usr/share/nvidia/nvidia-application-profiles-{driver}"
    remarks = (
        f"{folder}/nvidia/wine/_nvngx.dll",
        f"{folder}/nvidia/wine/nvngx.dll",
        "/usr/share/nvidia/nvoptix.bin",
        f"{profiles}-rc",
        f"{profiles}-key-documentation",
        "/usr/lib/xorg/modules/drivers/nvidia_drv.so",
        f"/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so.{driver}",
        f"/lib/firmware/nvidia/{driver}/gsp_ga10x.bin",
        f"/lib/firmware/nvidia/{driver}/gsp_tu10x.bin",
    )
    return dict.fromkeys(remarks, REMARK) | {
        f"{external}/10_nvidia_wayland.json": egl % "libnvidia-egl-wayland.so.1",
        f"{external}/15_nvidia_gbm.json": egl % "libnvidia-egl-gbm.so.1",
        "/usr/share/glvnd/egl_vendor.d/10_nvidia.json": egl % "libEGL_nvidia.so.0",
        "/usr/share/vulkan/icd.d/nvidia_icd.json": egl % "libGLX_nvidia.so.0",
        "/usr/share/vulkan/implicit_layer.d/nvidia_layers.json": layers,
        "/etc/OpenCL/vendors/nvidia.icd": "libnvidia-opencl.so.1",
    }


def proc_files(driver: str, machine: str, gpus: tuple[Gpu, ...]) -> dict[str, str]:
    """Return path → content of /proc/driver/nvidia, in the form in which the driver writes it."""
    base = "/proc/driver/nvidia"
    params = (
        "ResmanDebugLevel: 4294967295\nRmLogonRC: 1\nModifyDeviceFiles: 1\nDeviceFileUID: 0\n"
        'DeviceFileGID: 0\nDeviceFileMode: 438\nRmMsg: "SIMULATED by minirun"\n'
    )
    version = f"NVRM version: NVIDIA UNIX {machine} Kernel Module  {driver}  SIMULATED by minirun\n"
    files = {
        f"{base}/params": params,
        f"{base}/version": version,
        f"{base}/registry": 'Binary: "" (SIMULATED)\n',
        f"{base}/capabilities/mig/config": _access(1),
        f"{base}/capabilities/mig/monitor": _access(2),
    }
    for gpu in gpus:
        folder = f"{base}/gpus/{gpu.proc_name}"
        files[f"{folder}/information"] = _information(gpu)
        files[f"{folder}/registry"] = 'Binary: "" (SIMULATED)\n'
        files[f"{folder}/power"] = "Runtime D3 status:          Not supported (SIMULATED)\n"
        for mig in gpu.migs:
            instance = f"{base}/capabilities/gpu{gpu.minor}/mig/gi{mig.gi}"
            files[f"{instance}/access"] = _access(mig.gi_minor)
            files[f"{instance}/ci{mig.ci}/access"] = _access(mig.ci_minor)
    return files


def _access(minor: int) -> str:
    return f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n(SIMULATED)\n"


def _information(gpu: Gpu) -> str:
    lines = [
        f"Model: \t\t {gpu.model}",
        "IRQ:   \t\t N/A",
        f"GPU UUID: \t {gpu.uuid}",
        "Video BIOS: \t N/A",
        "Bus Type: \t PCIe",
        f"Bus Location: \t {gpu.proc_name}",
        f"Device Minor: \t {gpu.minor}",
        "GPU Excluded:\t No",
    ]
    lines += [f"MIG Device: \t gi{mig.gi}/ci{mig.ci} {mig.uuid}" for mig in gpu.migs]
    return "\n".join(lines) + "\n"
