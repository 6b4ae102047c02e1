"""Learning with the real thing: reads files, runs minirun as a command. The core never imports it.

oracle/    compares the log with what strace saw, event by event, in both directions
"""
