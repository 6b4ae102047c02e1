"""The commands of images: parse, call, print. minirun.cli has the table that leads here.

images          images, import: list, build, verify; image_rows: which of them, and by a template
image           image, load: docker's sub-commands
image_inspect   image inspect, image diff; diff ID
save            save, tag, rmi
pull, bars      pull, and a run whose image is missing; the bars of its progress
push, login     push; login, logout
build           build; build_context: the folder or archive that it is given
history         history
export          export; copy: cp; commit
system          image gc, system df
"""
