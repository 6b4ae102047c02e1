"""What several rings share, and the core does without: it may import the core, and nothing else.

ports          80, 8000-8003, 53/udp
quantities     numbers that are not whole: 1.5; 0-3,7; 1m30s
processes      the pids of /proc
child          work in a child that answers
waiting        for a condition, a descriptor or a lock, with a deadline
descriptors    a refusal if too few descriptors are free
naming         the name of a container, taken and given back
two_words      a name for one that was given none
interrupts     a signal that ends this program is raised as an error
screen         a terminal's width and colours, and how wide a text is
preferences    what a user has said once for all runs: the file of `minirun settings`
table          rows as a table, lines as a page; rich_console: what rich draws them with
docker_record  what `run IMAGE` keeps in state.json for docker's verbs
network_request  the networks that a container asks for, a part of that
called         the command line that starts this program again
schema         a check of a document against a JSON schema
"""
