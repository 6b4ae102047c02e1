"""nvidia-container-cli as a program of its own: what stage 5 does not need of it.

main        the command, with all of its flags
report      what info and list print
configure   one container, found by pid or around us, with nothing left behind by a failure
debug       --debug: the order of operations
"""
