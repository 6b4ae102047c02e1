"""The container's root filesystem, and the one way to touch a file in it."""
