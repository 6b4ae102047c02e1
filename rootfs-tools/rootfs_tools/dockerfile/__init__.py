"""A Dockerfile, as text: its instructions, their variables, and what of the context is ignored.

Nothing is executed here. `parse` turns the text into stages of instructions, `expand` fills in
variables, `ignore` reads .dockerignore; `heredoc`, `mounts` and `chmod` know what some words mean.
What is not known is refused, by the number of its line.
Source: docs.docker.com/reference/dockerfile.
"""
