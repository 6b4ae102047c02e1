"""A recording as a page of HTML: the document, what its script knows, and the script itself.

    html        the document
    page_data   the events, as its script reads them
    growing     what is added while the run goes on

The script is in the files of JavaScript beside these: page.js begins, sizes.js has the pixels,
draw.js makes the shapes of events, time_axis.js places them.
"""
