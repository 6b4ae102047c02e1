# sh on.sh NAME COMMAND …: runs it in the network namespace of this container
. ./lab.env
pid=$(minirun state "$1" | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
shift
exec nsenter --target "$pid" --net "$@"
