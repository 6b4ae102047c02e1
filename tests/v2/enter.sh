#!/bin/bash
# What the guest does once it is up, as root, in the checkout that came in on the second disk. Beside
# the checkout there lies `key`, a public key that may log in; or `arguments`, one word a line, for
# pytest, whose report goes to the third disk. The tests may log in as the user, too (MINIRUN_LOGIN).
set -e
user=$1
.venv/bin/python -m compileall -q minirun rootfs-tools/rootfs_tools
.venv/bin/python -m minirun.fast.launcher .venv/bin/minirun
.venv/bin/minirun images --quiet busybox | grep -q . || .venv/bin/python rootfs-tools/build busybox
if [ ! -e key ]; then
  ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
  cp /root/.ssh/id_ed25519.pub key
  export MINIRUN_LOGIN=$user@127.0.0.1
fi
install -D -m 600 key /root/.ssh/authorized_keys
install -d -m 700 -o "$user" -g "$user" "/home/$user/.ssh"
install -m 600 -o "$user" -g "$user" key "/home/$user/.ssh/authorized_keys"
if [ -e /sys/class/net/eth0 ]; then
  ip link set eth0 up
  ip address add 10.0.2.15/24 dev eth0
  ip route add default via 10.0.2.2
fi
systemctl --no-block start ssh
[ -e arguments ] || exit 0
allowed=/proc/sys/kernel/apparmor_restrict_unprivileged_userns
[ ! -e $allowed ] || echo 0 > $allowed  # Ubuntu: the tests without root need namespaces
mapfile -t arguments < arguments
.venv/bin/python -m pytest -v --tb=short -o timeout=1200 --junitxml=report.xml "${arguments[@]}" ||
  [ -f report.xml ] || echo '<testsuites/>' > report.xml
tar -cf /dev/vdc report.xml
sync
echo b > /proc/sysrq-trigger  # at once, whatever a test has left behind: QEMU ends then
