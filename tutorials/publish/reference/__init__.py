"""The reference pages that are counted or collected, and not written by hand.

`make path` writes one-start.md: one_start.py, from starts that start.py traces with tracer.py. It
makes containers. `make reference` writes the others.
"""
