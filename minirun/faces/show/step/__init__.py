"""`run --step`: a run that is held at each stage, shown on a screen, in lines, or on a page.

stepper_process   the process that holds the run
session           from the flags to a face and a controller
controller        follows the log, stops at gates, opens them
until             the event at which the run stops next; destinations: which there are
face              what a run is shown on: screen, lines, piped
screen            the whole terminal; frame: its lines; sides, differences: parts of it
lines             --step=plain
piped             for a program, such as a notebook
keys              from a terminal or a script; tty: the terminal; pager: a long page
anatomy           a snapshot as a page; answers: the same for a page's buttons
inside            a command in the half-built container
"""
