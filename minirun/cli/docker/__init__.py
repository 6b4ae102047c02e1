"""docker's commands: a container of an image, from `run` to `rm`."""
