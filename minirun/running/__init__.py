"""Ring 2: what accompanies a container while it runs: streams, signals, log, clean-up."""
