"""A lesson in a notebook: shell cells that run, questions, and what was recorded where none can.

    lesson = minirun.lesson("07-devices", "en")    what the first cell of a lesson says
    lesson.question(1)                             buttons: what will happen?
    %%shell                                        commands, in one shell for the whole lesson
    %%answer 1                                     commands whose last line is what happened
    %%minirun                                      commands for a machine in a browser's tab

    text.py       what a lesson ships: its questions, its reasons, and what its blocks printed once
    session.py    the shell: a child process, with a scratch folder that goes when it ends
    tab.py        that machine, near a notebook in a browser's Python
    lesson.py     the object of the first cell, live or from the recording; the three magics

tutorials/publish/notebooks.py (`make notebooks`) writes the notebooks, and what they ship, from
tutorials/NN-topic.LANGUAGE.md: one source for the terminal, the notebook and the test.
"""
