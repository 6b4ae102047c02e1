"""Tar archives: read as a stream, written so that the bytes follow from the content alone.

fields          numbers and exact reads, for all readers
stream          members one after the other, without a seek
sparse          files with holes: GNU tar's four ways
writer          headers and contents
pack            a directory tree, in an order that is always the same
"""
