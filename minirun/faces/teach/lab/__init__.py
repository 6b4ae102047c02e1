"""Labs: containers that are broken on purpose, to be repaired by the learner.

A lab is a folder of shell scripts (broken/NAME), its texts (minirun.faces.knowledge, labs.toml),
and a check that asks the kernel (minirun.faces.teach.lab.checks). make.sh prepares it, once. run.sh
starts the broken thing, at `start` and anew at each `check`; it, and what lies beside it, is what
the learner mends. solution.sh is one way to do so, and says why.

    labs     which labs there are
    folder   a lab's folder; places: where it lies
    checks   the check of each lab; facts: what the kernel says
"""
