# a web server in lab, and far at the other end of a cable
. ./lab.env
minirun run --detach --quiet --network none --name far busybox sleep 1000
minirun run --detach --quiet --network none --name lab \
  busybox httpd -f -p 127.0.0.1:80
pid=$(minirun state lab | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
sh on.sh far ip link add eth0 type veth peer name eth0 netns "$pid"
sh on.sh far ip address add 10.7.0.1/24 dev eth0
sh on.sh lab ip address add 10.7.0.2/24 dev eth0
sh on.sh far ip link set eth0 up
sh on.sh lab ip link set eth0 up
