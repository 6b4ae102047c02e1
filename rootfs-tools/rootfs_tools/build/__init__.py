"""`minirun build`: a Dockerfile is carried out, one layer for each step.

builder      the stages, one after the other, and the image at the end
run          RUN, by a container of minirun's (container), with its mounts (mounts, secrets)
network      the network of a RUN step, and what a Dockerfile may ask for
copy         COPY, ADD and WORKDIR, which need none
stage        the layers so far, and the cache
documents    manifest and configuration
"""
