# sh on-host.sh COMMAND …: runs it on the lab's host
. ./lab.env
pid=$(minirun state host | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
exec nsenter --target "$pid" --net "$@"
