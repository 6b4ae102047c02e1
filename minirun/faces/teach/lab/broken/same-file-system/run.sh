# pivot_root by hand: the jail becomes the root, the old root goes
. ./lab.env
unshare --mount --propagation private sh -ec '
  cd jail
  pivot_root . old
  exec /bin/sh -c "cd /; /bin/umount -l /old; exec /bin/sleep 1000"' &
