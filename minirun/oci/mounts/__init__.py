"""The `mounts` of config.json, from the words of their options to the mounts."""
