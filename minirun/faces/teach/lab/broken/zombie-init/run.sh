# a container whose process 1 starts three others, and lets go of them
. ./lab.env
minirun run --detach --quiet --name lab busybox sh -c '
  for number in 1 2 3; do ({ sleep 0.2; : >/done-$number; } &); done
  exec sleep 1000'
