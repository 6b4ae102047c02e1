# far and lab, each on a cable to a router, host; then lab's link gets another hardware address
. ./lab.env
machine() {
  minirun run --detach --quiet --network none --name "$1" busybox httpd -f -p 80
  pid=$(minirun state "$1" | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
  sh on.sh host ip link add "$2" type veth peer name eth0 netns "$pid"
  sh on.sh host ip address add "$3.1/24" dev "$2"
  sh on.sh host ip link set "$2" up
  sh on.sh "$1" ip address add "$3.2/24" dev eth0
  sh on.sh "$1" ip link set eth0 up
  sh on.sh "$1" ip route add default via "$3.1"
}
minirun run --detach --quiet --network none --name host busybox sleep 1000
sh on.sh host sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
machine far e0 192.0.2
machine lab e1 10.7.0
sh on.sh lab ip link set eth0 down
sh on.sh lab ip link set eth0 address 02:00:00:00:00:07
sh on.sh lab ip link set eth0 up
