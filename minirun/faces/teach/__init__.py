"""Learning with the real thing: reads files, runs minirun as a command. The core never imports it.

strace.py   reads what strace has written: system calls, and how processes ended
oracle/     compares the log with what strace saw, event by event, in both directions
observe/    tells the seven stages of a container that another runtime starts
lab/        containers that are broken on purpose
levels/     the ladder: programs that the learner writes, checked by what the kernel says
permission  whether strace may trace here, and what helps
pace        how slow this machine is: limits of time are longer on an emulated one
"""
