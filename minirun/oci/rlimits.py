"""The types of process.rlimits: a check of config.json needs no system call for them."""

RLIMITS = {
    f"RLIMIT_{name}": number
    for number, name in enumerate(
        (
            "CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE", "MEMLOCK", "AS",
            "LOCKS", "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO", "RTTIME",
        )
    )
}  # fmt: skip
"""getrlimit(2), by asm-generic/resource.h."""
