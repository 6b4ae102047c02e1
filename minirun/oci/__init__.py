"""config.json and state.json: the runtime-spec as minirun reads and writes it.

run_config    flags of `run` and an image → config.json; default_config.json is what it begins with,
              and runc's example, which `spec` prints
runc_spec     the config.json of `spec`, without an image
validate      config.json is checked; shape.json has its schema
features      the document of `features`
bundle        config.json of an image that was unpacked into a bundle
mounts        config.json's mounts, and /dev
namespaces    joined namespaces, user namespaces
seccomp       system calls that are refused
terminal      a pseudo-terminal
tuning        limits of a process, schedulers, labels, sysctl
exec          one more process in a container
user          `-u`: the image's users; image_user: those of an image that is not mounted
home          $HOME
rlimits       the names of process.rlimits
descriptors   descriptors sent through a Unix socket
"""
