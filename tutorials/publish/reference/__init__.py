"""The reference pages that are counted or collected, and not written by hand."""
