# setuid(2) needs CAP_SETUID, setgid(2) and setgroups(2) need CAP_SETGID
sed -i 's/--cap-add SETUID/--cap-add SETUID --cap-add SETGID/' run.sh
