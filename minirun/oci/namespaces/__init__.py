"""Namespaces that stage 1 does not make by itself: joined ones, and user namespaces.

userns    a user namespace: what the runtime does for init
idmap     the id maps of a user without root
shifted   copies of layers with other owners, if no id-mapped mount can be made
helper    namespaces named by a path; clocks of a time namespace
"""
