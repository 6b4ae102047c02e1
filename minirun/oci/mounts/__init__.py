"""Mounts that few containers have: the host's mount namespace, no pivot_root, unusual sources.

All other mounts are minirun.core.rootfs'; minirun.core.extras says which of these is needed.

    sources         sources that the runtime opens before clone
    copyup          tmpcopyup: what the image has below a tmpfs
    propagation     rootfsPropagation
    no_pivot        --no-pivot
    host_namespace  a container without a mount namespace of its own
"""
