# a mount namespace by hand, with a tmpfs that only it should have
. ./lab.env
mkdir -p shared/inside
mount --bind shared shared
mount --make-shared shared        # as systemd does with / at boot
unshare --mount --propagation unchanged sh -c '
  mount -t tmpfs lab shared/inside
  exec sleep 1000' &
