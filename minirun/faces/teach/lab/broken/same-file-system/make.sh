. ./lab.env
mkdir -p jail/old
minirun run --rm --quiet busybox tar c bin | tar x -C jail
