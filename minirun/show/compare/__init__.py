"""Two starts, or two stops of one start: what differs.

starts          two starts, stage by stage; starts_page: on one page
programs        the starts of two runtimes, with the reasons for what differs
stops           two stops of one start, in words
snapshot_diff   two snapshots, as `diff ID --stage N` has them
"""
