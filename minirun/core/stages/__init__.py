"""The seven stages, a file each; its functions are named after who acts: see minirun.core."""
