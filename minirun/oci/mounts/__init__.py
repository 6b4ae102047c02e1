"""Mounts that few containers have: the host's mount namespace, no pivot_root, unusual sources.

All other mounts are minirun.core.rootfs'; minirun.core.extras says which of these is needed.
"""
