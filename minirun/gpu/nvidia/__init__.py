"""NVIDIA's stack: one folder for each of its boxes, under its own name."""
