"""What several rings share, and the core does without: it may import the core, and nothing else."""
