"""Two starts, or two stops of one start: what differs."""
