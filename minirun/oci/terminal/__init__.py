"""process.terminal: a pseudo-terminal for the command, and the relay to the caller's."""
