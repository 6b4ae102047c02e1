"""`minirun build`: a Dockerfile is carried out, one layer for each step.

builder   the stages, one after the other, and the image at the end
step      RUN: a container of minirun's
"""
