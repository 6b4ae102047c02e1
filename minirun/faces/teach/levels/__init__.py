"""The ladder: eleven programs that the learner writes, each checked by what the kernel says of it.

The programs are in tutorials/levels/. `minirun level start N` writes one with its new functions
left out, and `minirun level check N` starts the learner's own, in any language, and looks.

    programs   where the programs are, and what a skeleton of one is
    sandbox    the container in which a program is tried: a mistake does not leave it
    tried      a learner's program: how it is called, what became of it
    checks     what must hold, level by level
    attacks    small programs that try to leave its container
    held       what of a learner's own programs held when they were checked last
    facts      what the kernel says in a sandbox
    material   what a program is given: layers of an image, a bundle, a simulated driver
"""
