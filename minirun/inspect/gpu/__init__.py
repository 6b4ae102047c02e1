"""What a living container has of GPUs: why, and what would change."""
