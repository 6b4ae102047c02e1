"""The only room that talks to the kernel through ctypes: one function per system call.

Every function raises ``OSError(errno, strerror, path)`` and carries the man page it was written
from. Those that make a container (design, section 5) write themselves into the log, so what the
log says and what the kernel was asked cannot drift apart.
"""
