"""Asking NVML which GPUs there are, in a process of its own.

The real nvidia-container-cli does the same in its "driver rpc service": a child without privileges
loads libnvidia-ml and answers through a pipe, so that a driver library that crashes or hangs takes
no other process with it. Here the child is uid 65534 without capabilities, and the answer is one
JSON text.

With a driver root the child enters it first, as the real one does: the driver's libraries then find
each other. nvidia-ml-py (module pynvml) is imported in the child alone.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import select

from minirun.core.errors import GPUError
from minirun.core.keeping import jsonlite
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.settings import unprivileged
from minirun.core.kernel import mounts, namespaces, process, signals
from minirun.core.lazy import lazy
from minirun.gpu import driverroot
from minirun.gpu.inventory import Gpu, Mig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NOBODY = 65534
TIMEOUT = 30
"""Seconds; a GPU without persistence mode takes some of them to wake up."""
NO_LIBRARY = (
    "initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: "
    "no such file or directory"
)
_BRANDS = {
    1: "Quadro", 2: "Tesla", 3: "NVS", 4: "GRID", 5: "GeForce", 6: "Titan", 12: "QuadroRTX",
    13: "NvidiaRTX", 14: "Nvidia", 15: "GeForceRTX", 16: "TitanRTX",
}  # fmt: skip
"""NVML_BRAND_* as nvidia-container-cli prints them."""


def user_of(text: str) -> tuple[int, int]:
    """Return the uid and gid that UID[:GID] names; NOBODY for "". Raises GPUError.

    Either may be a name. Without a group it is the user's own.
    """
    if not text:
        return NOBODY, NOBODY
    user, _, group = text.partition(":")
    try:
        account = None if user[:1].isdigit() else pwd.getpwnam(user)
        uid = account.pw_uid if account else _number(user)
        if not group:
            return uid, (account or pwd.getpwuid(uid)).pw_gid
        return uid, _number(group) if group[:1].isdigit() else grp.getgrnam(group).gr_gid
    except (KeyError, ValueError, OverflowError) as error:
        codes = {KeyError: errno.ENOENT, ValueError: errno.EINVAL}
        why = os.strerror(codes.get(type(error), errno.ERANGE)).lower()
        text = f"input error: parse user/group failed: {why}"
        raise GPUError(text, "as in --user=65534:65534 or --user=root:video") from None


def _number(text: str) -> int:
    number = whole(text, most=2**32 - 2)
    if number is None:
        raise (OverflowError if text.strip("0123456789") == "" else ValueError)(text)
    return number


def query(
    root: str = "",
    library: str = "",
    user: tuple[int, int] = (NOBODY, NOBODY),
    *,
    is_wsl: bool = False,
) -> tuple[str, tuple[Gpu, ...], str]:
    """Return (CUDA version, GPUs in NVML's order, driver). Raises GPUError with NVML's own words.

    `root` is the driver root ("" for the host's own), `library` the path of libnvidia-ml below it
    where it is known, `user` the uid and gid to ask as. `is_wsl`: GPUs have no minor, nor MIG;
    only then is the driver's version asked for.
    """

    def work(nvml: Any) -> dict[str, Any]:
        if library:
            nvml.CDLL(library)  # pynvml then finds it loaded, by its SONAME
        return _answer(nvml, is_wsl)

    answer = ask(lambda: lazy.load("pynvml"), work, root, user)
    gpus = (row | {"migs": tuple(Mig(*mig) for mig in row["migs"])} for row in answer["gpus"])
    return answer["cuda"], tuple(Gpu(**row) for row in gpus), answer["driver"]


def ask(
    prepare: Callable[[], Any],
    work: Callable[[Any], dict[str, Any]],
    root: str = "",
    user: tuple[int, int] = (NOBODY, NOBODY),
) -> dict[str, Any]:
    """Return what `work` answers in a child without privileges. Raises GPUError.

    It is given what `prepare` returns before the child enters the driver root.
    """
    answer_fd, write_fd = os.pipe2(os.O_CLOEXEC)
    pid, pidfd = namespaces.clone3(0, why="a driver library that crashes takes only itself along")
    if pid == 0:
        _child(write_fd, prepare, work, root, user)
    os.close(write_fd)
    try:
        text = _read(answer_fd)
    finally:
        signals.pidfd_send_signal(pidfd, signals.SIGKILL)
        os.waitpid(pid, 0)
        os.close(pidfd)
        os.close(answer_fd)
    answer: dict[str, Any] = jsonlite.loads(text or '{"error": "detection error: nvml crashed"}')
    if "error" in answer:
        raise GPUError(answer["error"])
    return answer


def _read(fd: int) -> str:
    """Read until the child closes its end. Raises GPUError after TIMEOUT seconds of silence."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    chunks = b""
    while poll.poll(TIMEOUT * 1000):
        chunk = os.read(fd, 65536)
        if not chunk:
            return chunks.decode()
        chunks += chunk
    raise GPUError(f"detection error: nvml did not answer in {TIMEOUT} s")


def _child(
    fd: int,
    prepare: Callable[[], Any],
    work: Callable[[Any], dict[str, Any]],
    root: str,
    user: tuple[int, int],
) -> None:
    """Answer on `fd`. Never returns."""
    try:
        prepared = prepare()
        has_rights = not unprivileged()  # now: the driver's root may have no /proc
        if root:
            mounts.chroot(root, why="the driver's libraries find each other in its own root")
            os.chdir("/")
        if has_rights:  # another user has nothing to give up
            process.setgroups([])
            process.setgid(user[1])
            process.setuid(user[0])
        os.write(fd, jsonlite.dumps(work(prepared)).encode())
    except Exception as error:  # whatever it is, the parent gets one line
        os.write(fd, jsonlite.dumps({"error": f"detection error: {error}"}).encode())
    finally:
        os._exit(0)


def _answer(nvml: Any, is_wsl: bool) -> dict[str, Any]:
    """Return what NVML says, or the error, in nvidia-container-cli's words."""
    step = "initialization"
    try:
        nvml.nvmlInit()
        step = "detection"
        return _ask(nvml, is_wsl)
    except nvml.NVMLError as error:
        if getattr(error, "value", None) == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            return {"error": NO_LIBRARY}
        return {"error": f"{step} error: nvml error: {nvml.nvmlErrorString(error.value).lower()}"}


def _ask(nvml: Any, is_wsl: bool) -> dict[str, Any]:
    cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
    rows = []
    for number in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
        node = 0 if is_wsl else nvml.nvmlDeviceGetMinorNumber(handle)
        mig_enabled = not is_wsl and _mig_enabled(nvml, handle)
        rows.append({
            "number": number,
            "minor": node,
            "uuid": nvml.nvmlDeviceGetUUID(handle),
            "bus_id": nvml.nvmlDeviceGetPciInfo(handle).busId.lower(),
            "model": nvml.nvmlDeviceGetName(handle),
            "brand": _BRANDS.get(nvml.nvmlDeviceGetBrand(handle), "Unknown"),
            "arch": f"{major}.{minor}",
            "migs": _migs(nvml, handle, node) if mig_enabled else [],
            "mig_enabled": mig_enabled,
        })  # fmt: skip
    driver = nvml.nvmlSystemGetDriverVersion() if is_wsl else ""
    return {"cuda": f"{cuda // 1000}.{cuda % 1000 // 10}", "gpus": rows, "driver": driver}


def _mig_enabled(nvml: Any, gpu: Any) -> bool:
    """Return True if MIG is on now; a GPU without MIG gives an error."""
    try:
        return bool(nvml.nvmlDeviceGetMigMode(gpu)[0])
    except nvml.NVMLError:
        return False


def _migs(nvml: Any, gpu: Any, node: int) -> list[tuple[str, int, int, int, int, int]]:
    """Return the MIG devices of a GPU as rows of Mig."""
    rows = []
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, number)
        except nvml.NVMLError:
            continue  # a slot without a device
        gi = nvml.nvmlDeviceGetGpuInstanceId(device)
        ci = nvml.nvmlDeviceGetComputeInstanceId(device)
        instance = f"/proc/driver/nvidia/capabilities/gpu{node}/mig/gi{gi}"
        minors = _caps_minor(f"{instance}/access"), _caps_minor(f"{instance}/ci{ci}/access")
        rows.append((nvml.nvmlDeviceGetUUID(device), gi, ci, *minors, number))
    return rows


def _caps_minor(path: str) -> int:
    """Return DeviceFileMinor of a MIG access file. Raises OSError, KeyError."""
    return int(driverroot.facts("", path)["DeviceFileMinor"])
