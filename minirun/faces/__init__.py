"""A shelf: what shows, explains and teaches. The runtime runs without this folder.

show        the log as text, pictures, a page; stepping through a start
inspect     what a container is made of, now
knowledge   what is known of errors and of topics, in English and Korean
teach       labs, the ladder, observing other runtimes, the oracle
api         what `import minirun` offers to a notebook
doctor      what this machine can do, tried
recordings  runs that were recorded: `minirun replay`
commands    the commands of all these
"""
