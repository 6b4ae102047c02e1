"""process.terminal: a pseudo-terminal for the command, and the relay to the caller's.

terminal   init makes it, and sends its other end out
keys       the detach keys
relay      what goes between it and the caller's terminal
"""
