# a link that goes down takes its routes along; up again, it brings back only its neighbours'
echo 'sh on.sh lab ip route add default via 10.7.0.1' >>run.sh
