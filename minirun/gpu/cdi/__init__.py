"""The Container Device Interface: devices of any vendor, described in files, put into config.json.

    names       vendor.com/class=name, and the annotations cdi.k8s.io/*
    check       a spec file, checked against the schema; errors name the exact place
    registry    the folders /etc/cdi and /var/run/cdi → devices by name
    stale       a spec file that is older than the driver
    container_edits   containerEdits → Edits, and back
    inject      Edits → config.json, as the reference library does it

What `minirun run` was asked for becomes edits in minirun.gpu.asked.ways; specs of NVIDIA's GPUs are
made by minirun.gpu.nvidia.specs.
In this mode there is no stage 4 and 5: everything is in config.json before stage 1, and what no
config.json can say (links, ld.so.cache) is done by createContainer hooks in stage 7.

Sources: the CDI specification (SPEC.md, 1.1.0) and its reference library, pkg/cdi.
"""
