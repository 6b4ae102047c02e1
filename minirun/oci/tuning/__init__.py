"""Rarely used properties of process and linux: labels, schedulers, personality, memory policy."""
