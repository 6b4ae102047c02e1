"""The container's network: its own loopback, and what there is to see of it from outside."""
