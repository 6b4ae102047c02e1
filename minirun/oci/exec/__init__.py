"""`exec`: one more process in a container that runs.

join        the new process, in the container's namespaces and cgroup
newcomer    it gives up its privileges
channel     what it says to its caller
sealed      a read-only interpreter, if others in the pid namespace could read it
sibling     clone(2) of a sibling; close_range(2)
verdict     what the seccomp filter would say of a system call
created     a container that is created and not started, entered without root
"""
