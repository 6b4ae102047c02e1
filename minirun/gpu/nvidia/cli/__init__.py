"""nvidia-container-cli and libnvidia-container: find the driver's files, plan the edits."""
