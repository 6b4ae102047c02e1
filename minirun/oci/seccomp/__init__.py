"""linux.seccomp: profiles of system calls, compiled by libseccomp."""
