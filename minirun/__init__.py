"""minirun: a small, real container runtime whose GPU injection step can be watched."""

__version__ = "0.1.0"
