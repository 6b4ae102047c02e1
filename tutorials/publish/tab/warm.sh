# Lines that are typed before the state is saved. What they read stays in memory, and is in the state.
free -m
minirun run --network none busybox true
minirun run --network none busybox true
free -m
