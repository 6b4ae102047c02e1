# the two layers, one over the other: what the container would see is in merged
. ./lab.env
mkdir -p merged
mount -t overlay overlay -o lowerdir=layers/2:layers/1 merged
