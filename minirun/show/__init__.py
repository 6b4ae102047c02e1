"""Showing the log to people: as text, live on a terminal, or afterwards. Reads files only."""
