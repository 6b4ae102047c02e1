"""What several rings share, and the core does without: it may import the core, and nothing else.

descriptors   a refusal if too few descriptors are free
interrupts    a signal that ends this program is raised as an error
called        the command line that starts this program again
schema        a check of a document against a JSON schema
"""
