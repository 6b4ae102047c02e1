"""Rarely used properties of process and linux: labels, schedulers, personality, memory policy.

limits    rlimits, oomScoreAdj
sched     scheduler, ioPriority, personality, memory policy: the system calls
tuning    the same, as properties of config.json
labels    AppArmor, SELinux
sysctl    linux.sysctl
"""
