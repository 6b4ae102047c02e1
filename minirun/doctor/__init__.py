"""`minirun doctor`: what this machine can do, stage by stage, found out by trying it."""
