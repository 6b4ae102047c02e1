"""The container's command: who it is, what it may do, what it is connected to, how it starts."""
