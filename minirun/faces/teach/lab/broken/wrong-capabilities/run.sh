# a service that gives its folder away, and then serves
. ./lab.env
minirun run --detach --quiet --name lab --cap-drop ALL busybox sh -c '
  mkdir /service && chown 1000 /service && exec sleep 1000'
