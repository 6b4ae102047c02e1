"""nvidia-container-runtime-hook: from config.json to a command line for nvidia-container-cli.

environment     NVIDIA_VISIBLE_DEVICES and its relatives → NvidiaRequest
command_line    config.json + state → the argument list
hook_settings   what config.toml and flags say, in-line; program: the program of that name
"""
