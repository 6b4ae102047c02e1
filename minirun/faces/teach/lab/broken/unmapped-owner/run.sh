# a runtime, and its init in a user namespace, where the service's files belong to user 70000
. ./lab.env
rm -f go
mkfifo go
unshare --user --keep-caps --mount sh -c '
  read word <go
  exec setpriv --reuid 0 --regid 0 --clear-groups sh -c "
    mount -t tmpfs none /mnt && mkdir /mnt/service && chown 70000 /mnt/service && exec sleep 1000"' &
init=$!
until [ "$(readlink /proc/$init/ns/user)" != "$(readlink /proc/$$/ns/user)" ]; do sleep 0.05; done
echo 0 100000 65536 >/proc/$init/uid_map
echo 0 100000 65536 >/proc/$init/gid_map
echo >go
