"""Showing the log to people: as text, live on a terminal, or afterwards. Reads files only.

log       the log is read: events, recordings, filters
text      it is shown as lines, live or afterwards
template  Go's templates, for --format
step      `run --step`; web: the same in a browser
page      a page of HTML
figures   Figures 1, 2 and 3
compare   two starts, or two stops
"""
