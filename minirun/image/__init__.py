"""Images: what `ubuntu` names, where its layers lie, and how they came there.

`reference` reads the name and `store` finds the layers (all that `run` imports); `catalogue` adds,
lists, checks and removes, `build` makes root filesystems out of Debian packages,
`unpack` brings one in from a tar archive. Nothing in an image is ever trusted.
"""
