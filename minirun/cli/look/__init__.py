"""Commands that show and explain: the log, a container, its GPUs, other runtimes, the labs."""
