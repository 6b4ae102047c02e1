"""The seven stages, a file each; its functions are named after the actor: see minirun.core."""
