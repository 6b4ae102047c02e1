"""NVIDIA's programs, each under its own name."""
