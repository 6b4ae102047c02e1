"""runc's commands, to the letter, for engines. checkpoint and restore: minirun.toolkit.

create        create, and what `run --bundle` shares with it; run_bundle: that command
control       start, kill, delete, pause, resume
state         state, list, features, and --version
exec          exec; exec_flags: its flags; exec_inside: its process, in the sealed interpreter
ps            ps ID; events: events ID
update        update
spec          spec
"""
