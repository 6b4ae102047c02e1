# a server: it begins as root, and goes on as user and group 1000
. ./lab.env
minirun run --detach --quiet --network none --name lab --cap-drop ALL --cap-add SETUID ubuntu sh -c '
  exec setpriv --reuid 1000 --regid 1000 --clear-groups sleep 1000'
