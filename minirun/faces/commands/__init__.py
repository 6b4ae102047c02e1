"""Commands that show and explain: the log, a container, its GPUs, other runtimes, the labs.

timeline    timeline, replay, diff
inspect     inspect, gpu why, gpu diff
gpu         gpu list, gpu ps; the table of the other gpu commands
explain     explain
observe     observe
teach       teach oracle
doctor      doctor
lab         lab
level       level
view        what `run` shows while the container starts
"""
