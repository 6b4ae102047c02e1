# networks are kept in the store: the lab has one of its own, with one image
. ./lab.env
minirun run --rm --quiet --network none busybox true
minirun save busybox | minirun --store "$PWD/store" load
echo "export MINIRUN_STORE='$PWD/store'" >>lab.env
