"""The oracle: is the log true, and is it whole? strace, which knows nothing of it, is the witness.

    witness.py   runs a minirun command under strace
    calls.py     what an event says of a system call, and what strace says: in the same words
    netlink.py   the same of requests of rtnetlink
    compare.py   the comparison, in both directions, and its rule
    findings.py  what it finds
    report.py    what is printed of it

strace(1) stops each process at each call by ptrace(2) and writes down what it finds in registers
and memory. The log is written by minirun itself. Two sources, one truth: if they differ, one of
them is wrong, and it has so far never been strace.
"""
