"""runc's commands, to the letter, for engines.

create        create, and what `run --bundle` shares with it; run_bundle: that command
control       start, kill, delete, pause, resume
state         state, list, features, and --version
update        update
checkpoint    checkpoint, restore
spec          spec
"""
