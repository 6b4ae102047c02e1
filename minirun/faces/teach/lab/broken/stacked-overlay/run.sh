# the disk of a container: an overlay, as every container has one
. ./lab.env
mkdir -p outside disk merged
mount -t tmpfs tmpfs outside
mkdir outside/lower outside/upper outside/work
mount -t overlay overlay -o lowerdir=outside/lower,upperdir=outside/upper,workdir=outside/work disk

# in this container another one is to start: what it writes is to lie on the disk that there is
place=disk
mkdir -p $place/upper $place/work
mount -t overlay overlay -o lowerdir=image,upperdir=$place/upper,workdir=$place/work merged &&
    echo 'of the container' >merged/written
