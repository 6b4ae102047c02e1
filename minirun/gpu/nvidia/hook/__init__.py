"""nvidia-container-runtime-hook: from config.json to a command line for nvidia-container-cli."""
