# a service: its worker makes a table of 48 MiB, and a shell starts the worker again if it ends
. ./lab.env
minirun run --detach --quiet --network none --name lab --memory 32m --memory-swap 32m busybox sh -c '
  until dd if=/dev/zero of=/table bs=48M count=1 2>/dev/null; do
    echo "worker: it crashed, and starts again"; sleep 0.2
  done
  echo "worker: the table is there"
  exec sleep 1000'
for _ in $(seq 50); do [ -z "$(minirun logs lab)" ] || break; done
