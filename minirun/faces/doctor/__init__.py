"""`minirun doctor`: what this machine can do, stage by stage, found out by trying it.

table       every line of the report, in its order, with the advice if it fails
machine     what is there: user, interpreter, disk, images, tools, a driver
kernel      system calls, made as the stages make them
attempts    a try in a child process that ends with it
networks    bridges, the firewall, forwarding
rootless    the same as a user without root
"""
