"""Two starts, or two snapshots of one start: what differs.

comparer      a difference, and the one function that finds them
snapshots     what is compared of two snapshots, and which two
starts        what is compared of two starts, of one program or of two; and the reasons
as_text       `minirun diff` as text; starts_page: two starts on one page
"""
