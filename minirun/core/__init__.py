"""The core: how a container starts. It is a book, and this is the order to read it in."""
