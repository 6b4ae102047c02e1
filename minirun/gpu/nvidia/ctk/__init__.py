"""nvidia-ctk: CDI specifications made from what the host has, and engines' configurations."""
