"""`minirun.step`: a run that is held at each stage, on a page in the notebook.

stepper      `step`, and the run that it returns
holder       what holds a run
live_run     a child process is held
played_run   a recording is played
widget       the page in a frame, and its buttons; widget.js is its half in the browser
"""
