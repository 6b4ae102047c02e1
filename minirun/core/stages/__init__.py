"""The seven stages of Figure 3, a file each; in each file the functions are named after the actor.

1  runtime  clone() makes init in new namespaces, OverlayFS makes its root filesystem
2  init     asks the runtime through a named FIFO to run the prestart hooks, and waits
3  runtime  runs each prestart hook of config.json
4  hook     turns config.json and environment into arguments for nvidia-container-cli
5  cli      puts the GPUs into the half-started container
6  runtime  answers through the FIFO: hooks done
7  init     pivot_root, fewer privileges, exec
"""
