"""What the core's tests of mounts have too: a mount namespace, and what stands at a path."""

from core.rootfs.conftest import isolated, mount_at, tree  # noqa: F401
