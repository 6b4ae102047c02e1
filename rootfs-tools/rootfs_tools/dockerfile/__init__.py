"""A Dockerfile, as text: its instructions, their variables, and what of the context is ignored.

Nothing is executed here. What is not known is refused, by the number of its line.

    parse           from the text to its stages of instructions
    heredoc         lines that are a file, or what a shell reads
    expand          variables and quotes in words; shellpattern: ${NAME#pattern}
    mounts, chmod   what --mount and --chmod say
    ignore          what .dockerignore leaves out
    evaluate        what the instructions of a stage mean
    trees           where COPY takes its files from
    copying         COPY and ADD: files become a layer
    cache           what builds before have made
Source: docs.docker.com/reference/dockerfile.
"""
