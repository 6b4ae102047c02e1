"""The Python API: containers as objects that show themselves, in a notebook and at a prompt.

    run(image, *command, gpus="0,1")   a container, made by minirun in a process of its own
    step(image, *command)              a run that stops at each stage, on a page with buttons
    replay("gpus-0-1")                 the timeline of a recording: no root, no Linux needed
    predict(question, choices)         a question that is asked before it is answered
    network("shop")                    networks as the kernel has them; also those of a container
    lesson("07-devices")               a lesson's questions, and %%shell cells for its commands
    lab("wrong-minor")                 a container that is broken on purpose, with buttons
    level(3)                           a program of the ladder: its gaps, and its check

minirun runs as a child process and its log is followed while it grows. The process that calls this
(a notebook's kernel) is never moved into a namespace, and never forked: a kernel has threads, and a
copy of it would have only one of them.

What `run` and `step` need:

    launch, stream      `run`: the container, and its stages in the cell while they happen
    child               minirun as a child process, and its errors
    container           a container as an object
    timeline, drawing   its events, and the two lanes that show themselves
    devices             what stage 5 changed; namespaces: those of a process
    stepping            `step`: a run that is held, and its page

What a notebook shows:

    mime                the forms in which an object shows itself: text, HTML, a widget of Jupyter
    buttons             the widgets of a question and of a lab
    table               a small table, as text and as HTML
    prediction          `predict`
    labs                `lab`
    level_task          `level`
    networks            `network`
    course              `lesson`: a lesson's texts and cells
"""

from minirun.faces.api.container import ContainerHandle as Container  # its name for callers
from minirun.faces.api.container import Result
from minirun.faces.api.course.lesson import Lesson, lesson
from minirun.faces.api.devices import DeviceDiff
from minirun.faces.api.labs import Lab, lab
from minirun.faces.api.launch import RunError, can_run, run
from minirun.faces.api.level_task import LevelTask, level
from minirun.faces.api.namespaces import Namespaces
from minirun.faces.api.networks import NetworkView, network
from minirun.faces.api.prediction import Prediction, Verdict, predict
from minirun.faces.api.stepping.stepper import Stepper, step
from minirun.faces.api.table import Table
from minirun.faces.api.timeline import Timeline, replay

__all__ = [
    "Container", "DeviceDiff", "Lab", "Lesson", "LevelTask", "Namespaces", "NetworkView",
    "Prediction", "Result", "RunError", "Stepper", "Table", "Timeline", "Verdict", "can_run", "lab",
    "lesson", "level", "network", "predict", "replay", "run", "step",
]  # fmt: skip
