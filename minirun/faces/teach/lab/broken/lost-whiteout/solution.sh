# OverlayFS's own form of a whiteout: a character device 0:0 of the hidden file's name
rm layers/2/.wh.secret
mknod layers/2/secret c 0 0
