"""Images on disk: OCI layouts, docker's archives; and tar archives that minirun itself writes.

Whatever form they have, they are read through `files`: a folder or a tar archive, in which a name
finds a plain file of that folder or archive, and nothing else. `layout` and `docker` make a
`Source` (rootfs_tools.image_spec) of each image in it.

    loading    which images there are, and what they are called
    files      the files: in a folder, or in a tar archive
    archive    a tar archive, read as it lies
    layout     OCI's layout
    docker     docker's archive; legacy: as it was before 1.10
    saving     images of the store as an archive
"""
