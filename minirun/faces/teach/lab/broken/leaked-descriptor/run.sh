# an engine that hands its container a file, as descriptor 3
. ./lab.env
exec 4</                          # the engine's own, to look into the host's files
exec 3<licence
minirun create --bundle bundle --preserve-fds 2 lab
minirun start lab
