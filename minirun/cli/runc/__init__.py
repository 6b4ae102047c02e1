"""runc's commands, to the letter, for engines."""
