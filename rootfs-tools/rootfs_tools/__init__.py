"""The workshop: it makes, fetches, unpacks, packs and sends images. README.md draws the way of one.

What it leaves is the store, a directory: image.json and layers, which minirun.image.store reads.
minirun reaches the workshop through two tables, of commands (minirun.cli) and of calls
(minirun.image.workshop); `minirun run` of an image that is here loads nothing of it.

    grammar         whether an image reference is spelt right
    registry/       images over the network: which host is asked, how, with which credentials
    archives/       images on the disk: OCI layouts, docker's archives
    recipe/         images that are made of packages and files: rootfs-tools/recipes
    dockerfile/     a Dockerfile as text: what its instructions mean
    build/          a Dockerfile carried out, one layer for each step
    made            an image that is made here, as a source
    importer        a root filesystem out of a tar archive

    take            from a source to an image in the store, whatever the source
    choose          from an index to the image of one platform
    image_spec      the documents of an image: index, manifest, configuration
    blobs           what is named by its digest: documents and archives of layers
    compression     gzip, bzip2, xz, zstd, by their first bytes
    tar/            archives: read, written, with sparse files
    unpack          members of an archive become files below a directory
    unpack_layer    the same over the layers below: whiteouts
    layers          unpacked layers, each once
    lower           what layers show together, without a mount
    draft, durable  directories in the making; what has a name is on the disk
    catalogue       the images of the store: put in, checked, removed
    gc, usage       what nothing needs any more; how much room all takes
    history, compare, tree, walk  how an image was made; what differs; what a tree holds
    container_tree, copying       the files of a container; `cp` into it and out of it
    commit                        an image of what a container has written
    export, image_bundle          a container's files as an archive; an image as a bundle
    pull_log        a pull as events of the container's log
    cli/            the commands
"""
