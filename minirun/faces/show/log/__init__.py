"""The log as records: one reader of events.jsonl, what is found in it, and what it says.

event        one event: a record, and the reader of events.jsonl
recording    the events of one container
event_row    one event as one row
find         a recording by file, name or id; recorded: the table of all
order        births before what the child does
filters      --stage, --filter; pattern: an event by words such as `mknodat /dev/nvidia*`
narrate      which events each level shows
milestones   many calls of one kind as one row; summary: a stage as one line
topics       what is known of each event
axis         the axis of time, for pictures; trace: JSON for Perfetto
"""
