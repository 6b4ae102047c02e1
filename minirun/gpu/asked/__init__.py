"""Which GPUs a container asks for, who asks, and which of the host they are."""
